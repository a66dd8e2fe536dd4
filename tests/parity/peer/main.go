// Command peer asks Karpenter's own code what it would decide.
//
// Each line of standard input is a question, each line of standard output its answer, both JSON. A
// question is a problem (objects of a cluster, instance types, options, a moment) that is solved so
// many times, because Go walks its maps in random order and several answers can be right; or it is
// a list of NodePools to hash. Karpenter's exported constructors are used as its own tests use them,
// with a client, a clock and a cloud that only exist in memory.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
)

type question struct {
	Problem *problem      `json:"problem"`
	Runs    int           `json:"runs"`
	Loose   bool          `json:"loose"` // leave it to chance which of equal domains is taken
	Pools   []v1.NodePool `json:"pools"`
}

type reply struct {
	Answers []answer `json:"answers,omitempty"`
	Hashes  []string `json:"hashes,omitempty"`
	Version string   `json:"version,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func main() {
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := encoder.Encode(replyTo(line)); err != nil {
				panic(err)
			}
			if err := out.Flush(); err != nil {
				return // nobody listens any more
			}
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(err)
		}
	}
}

func replyTo(line []byte) (made reply) {
	defer func() {
		if fault := recover(); fault != nil {
			made = reply{Error: fmt.Sprintf("panic: %v\n%s", fault, debug.Stack())}
		}
	}()
	asked := question{}
	if err := json.Unmarshal(line, &asked); err != nil {
		return reply{Error: fmt.Sprintf("reading the question: %v", err)}
	}
	if asked.Problem == nil {
		made = reply{Version: v1.NodePoolHashVersion}
		for i := range asked.Pools {
			made.Hashes = append(made.Hashes, asked.Pools[i].Hash())
		}
		return made
	}
	scheduling.PinDomains = !asked.Loose
	seen := map[string]bool{}
	for range max(asked.Runs, 1) {
		found, err := decide(asked.Problem)
		if err != nil {
			return reply{Error: err.Error()}
		}
		text, err := json.Marshal(found)
		if err != nil {
			return reply{Error: err.Error()}
		}
		if !seen[string(text)] {
			seen[string(text)] = true
			made.Answers = append(made.Answers, *found)
		}
	}
	return made
}
