"""The cluster that kubectl would talk to is found, and what is wrong is said in one sentence."""

import base64
import errno
from pathlib import Path
from typing import Any, NoReturn

import pytest

from helpers.kubeconfigs import V1, V1BETA1, kubeconfig
from karpenter.kube.access.config import load_config, own_namespace
from karpenter.kube.access.proxies import proxy_for
from karpenter.kube.access.types import Certificate, ClusterConfig, Tls
from karpenter.kube.errors import ConfigError


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def load(path: Path, **environment: str) -> ClusterConfig:
    return load_config({"KUBECONFIG": str(path), **environment})


def account(folder: Path) -> Path:
    """A service account as a pod finds it."""
    folder.mkdir()
    (folder / "token").write_text("pod-token\n")
    (folder / "ca.crt").write_text("POD CA\n")
    (folder / "namespace").write_text("kube-system\n")
    return folder


def test_a_cluster_and_a_user_are_read(tmp_path: Path) -> None:
    cluster = {
        "server": "https://10.0.0.1:6443/",
        "certificate-authority-data": encoded("CA"),
        "tls-server-name": "kubernetes.default",
        "proxy-url": "http://proxy.example:3128",
    }
    user = {"client-certificate-data": encoded("CERT"), "client-key-data": encoded("KEY")}
    config = load(kubeconfig(tmp_path / "config", cluster=cluster, user=user))

    assert "https://10.0.0.1:6443" == config.server
    assert Tls(ca=b"CA", server_name="kubernetes.default") == config.tls
    assert "http://proxy.example:3128" == config.proxy
    assert Certificate(b"CERT", b"KEY") == config.identity.certificate
    assert "KEY" not in repr(config)


def test_paths_are_relative_to_the_file_they_stand_in(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    for name in ("ca", "cert", "key"):
        (tmp_path / "keys" / name).write_text(name)
    user = {"client-certificate": "../keys/cert", "client-key": str(tmp_path / "keys" / "key")}
    path = kubeconfig(
        tmp_path / "etc" / "config", cluster={"certificate-authority": "../keys/ca"}, user=user
    )
    config = load(path)

    assert b"ca" == config.tls.ca
    assert Certificate(b"cert", b"key") == config.identity.certificate


def test_data_is_preferred_to_the_file_beside_it(tmp_path: Path) -> None:
    cluster = {
        "certificate-authority": "missing",
        "certificate-authority-data": encoded("CA"),
    }

    assert b"CA" == load(kubeconfig(tmp_path / "config", cluster=cluster)).tls.ca


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param({"token": "abc"}, {"token": "abc"}, id="a token"),
        pytest.param(
            {"username": "me", "password": "pw"}, {"username": "me", "password": "pw"}, id="a name"
        ),
        pytest.param(
            {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"x/y": ["1"]}},
            {
                "impersonation": (
                    ("Impersonate-User", "jane"),
                    ("Impersonate-Uid", "7"),
                    ("Impersonate-Group", "a"),
                    ("Impersonate-Group", "b"),
                    ("Impersonate-Extra-x%2Fy", "1"),
                )
            },
            id="acting as somebody else",
        ),
    ],
)
def test_users(tmp_path: Path, user: dict[str, Any], expected: dict[str, Any]) -> None:
    identity = load(kubeconfig(tmp_path / "config", user=user)).identity

    assert expected == {name: getattr(identity, name) for name in expected}


def test_a_token_file_is_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    identity = load(kubeconfig(tmp_path / "config", user={"tokenFile": "token"})).identity

    assert tmp_path / "token" == identity.token_file


def test_an_exec_plugin_is_read(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {"certificate-authority-data": encoded("CA"), "extensions": [extension]}
    user = {
        "exec": {
            "apiVersion": V1,
            "command": "./bin/login",
            "args": ["token", "--quiet"],
            "env": [{"name": "PROFILE", "value": "dev"}],
            "interactiveMode": "Never",
            "installHint": "install it with brew\n",
            "provideClusterInfo": True,
        }
    }
    command = load(kubeconfig(tmp_path / "config", cluster=cluster, user=user)).identity
    exec_command = command.exec_command

    assert exec_command is not None
    assert str(tmp_path / "bin" / "login") == exec_command.command
    assert ("token", "--quiet") == exec_command.args
    assert (("PROFILE", "dev"),) == exec_command.env
    assert "Never" == exec_command.interactive_mode
    assert "install it with brew" == exec_command.install_hint
    assert {
        "server": "https://main.example",
        "certificate-authority-data": encoded("CA"),
        "config": {"audience": "x"},
    } == exec_command.cluster_info


def test_a_plugin_without_a_slash_is_looked_for_in_the_path(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": V1BETA1, "command": "aws"}}
    command = load(kubeconfig(tmp_path / "config", user=user)).identity.exec_command

    assert command is not None
    assert ("aws", "IfAvailable", None) == (
        command.command,
        command.interactive_mode,
        command.cluster_info,
    )


class TestSeveralFiles:
    def test_the_first_file_to_name_something_wins(self, tmp_path: Path) -> None:
        first = kubeconfig(tmp_path / "a", user={"token": "first"})
        second = kubeconfig(tmp_path / "b", user={"token": "second", "username": "me"})
        config = load_config({"KUBECONFIG": f"{first}:{second}"})

        assert ("first", "") == (config.identity.token, config.identity.username)

    def test_parts_may_stand_in_different_files(self, tmp_path: Path) -> None:
        first = kubeconfig(tmp_path / "a", name="east", clusters=[], users=[])
        second = kubeconfig(tmp_path / "b", name="east", contexts=[])

        assert "https://east.example" == load_config({"KUBECONFIG": f"{first}:{second}"}).server

    def test_a_file_that_does_not_exist_is_skipped(self, tmp_path: Path) -> None:
        second = kubeconfig(tmp_path / "b")

        assert load_config({"KUBECONFIG": f"{tmp_path / 'a'}::{second}"}).server

    def test_a_context_can_be_chosen(self, tmp_path: Path) -> None:
        first = kubeconfig(tmp_path / "a", name="east")
        second = kubeconfig(tmp_path / "b", name="west")
        config = load_config({"KUBECONFIG": f"{first}:{second}"}, context="west")

        assert "https://west.example" == config.server


class TestOrder:
    def test_kubeconfig_comes_before_the_service_account(self, tmp_path: Path) -> None:
        path = kubeconfig(tmp_path / "config")
        environment = {"KUBECONFIG": str(path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        config = load_config(environment, service_account=account(tmp_path / "account"))

        assert "https://main.example" == config.server

    @pytest.mark.parametrize(
        ("host", "port", "server"),
        [
            pytest.param("10.0.0.1", "6443", "https://10.0.0.1:6443", id="an address"),
            pytest.param("fd00::1", "443", "https://[fd00::1]:443", id="an IPv6 address"),
            pytest.param("10.0.0.1", "", "https://10.0.0.1:443", id="no port"),
        ],
    )
    def test_a_pod_uses_its_service_account(
        self, tmp_path: Path, host: str, port: str, server: str
    ) -> None:
        kubeconfig(tmp_path / ".kube" / "config")
        environment = {
            "HOME": str(tmp_path),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
        }
        folder = account(tmp_path / "account")
        config = load_config(environment, service_account=folder)

        assert server == config.server
        assert b"POD CA" == config.tls.ca
        assert ("pod-token", folder / "token") == (
            config.identity.token,
            config.identity.token_file,
        )
        assert "kube-system" == config.namespace == own_namespace(folder)

    def test_the_home_folder_comes_last(self, tmp_path: Path) -> None:
        kubeconfig(tmp_path / ".kube" / "config")

        assert "https://main.example" == load_config({"HOME": str(tmp_path)}).server

    def test_outside_of_a_pod_there_is_no_namespace(self, tmp_path: Path) -> None:
        assert "" == own_namespace(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("a: b: c\n", "config:1:5: ", id="no YAML"),
        pytest.param("- a\n", "an object", id="a list"),
        pytest.param("", "there is no kubeconfig at", id="an empty file"),
        pytest.param(
            "kind: Config\n",
            "no current-context is set; there are no contexts",
            id="no context at all",
        ),
        pytest.param(
            "contexts: [{name: a, context: {}}]\n",
            "no current-context is set; there are: a",
            id="no current context",
        ),
        pytest.param(
            "current-context: b\ncontexts: [{name: a, context: {}}]\n",
            "there is no context 'b'; there are: a",
            id="an unknown context",
        ),
        pytest.param(
            "current-context: a\ncontexts:\n- name: a\n",
            "config:3: contexts[0].context is missing",
            id="an empty context",
        ),
        pytest.param(
            "current-context: a\ncontexts:\n- name: a\n  context: {}\n",
            "config:4: contexts[0].context.cluster is missing",
            id="a context without a cluster",
        ),
        pytest.param(
            "current-context: a\ncontexts:\n- name: a\n  context:\n    cluster: c\n",
            "config:5: contexts[0].context.cluster names 'c', but there is no such cluster",
            id="an unknown cluster",
        ),
        pytest.param("contexts: {}\n", "contexts must be a list", id="contexts that are no list"),
        pytest.param(
            "contexts: [5]\n", "contexts[0] must be a mapping", id="a context that is no mapping"
        ),
        pytest.param("current-context: 5\n", "must be text", id="a number in place of a name"),
    ],
)
def test_broken_files(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load(path)

    assert problem in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


EXEC = {"apiVersion": V1, "command": "login", "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("cluster", "user", "problem"),
    [
        pytest.param({"server": ""}, {}, "cluster.server is missing", id="no server"),
        pytest.param(
            {"server": "ftp://a"}, {}, "is 'ftp://a', which is no http or https URL", id="ftp"
        ),
        pytest.param(
            {"server": "https://me:secret@a:b"},
            {},
            "server is no http or https URL",
            id="with a password",
        ),
        pytest.param(
            {"server": "https://a:99999"}, {}, "no http or https URL", id="a port too large"
        ),
        pytest.param(
            {"certificate-authority": "nowhere"},
            {},
            "certificate-authority names ",
            id="a CA that is not there",
        ),
        pytest.param(
            {"certificate-authority-data": "***"},
            {},
            "certificate-authority-data is not base64",
            id="a CA that is not base64",
        ),
        pytest.param(
            {"certificate-authority-data": encoded("x"), "insecure-skip-tls-verify": True},
            {},
            "exclude each other",
            id="a CA that is not checked",
        ),
        pytest.param(
            {"insecure-skip-tls-verify": "yes"}, {}, "must be true or false", id="a flag as text"
        ),
        pytest.param(
            {"proxy-url": "socks5://a"}, {}, "proxy-url must be an http or https URL", id="socks"
        ),
        pytest.param(
            {},
            {"client-key-data": encoded("k")},
            "client-certificate is missing, though there is a client-key",
            id="a key without a certificate",
        ),
        pytest.param(
            {},
            {"client-certificate-data": encoded("c")},
            "client-key is missing",
            id="a certificate without a key",
        ),
        pytest.param({}, {"token": 12345}, "token must be text", id="a token that is a number"),
        pytest.param(
            {"proxy-url": "http://"},
            {},
            "proxy-url must be an http or https URL",
            id="a proxy that is nowhere",
        ),
        pytest.param(
            {"tls-server-name": ".example"},
            {},
            "tls-server-name is not a host name",
            id="a name that no certificate can have",
        ),
        pytest.param(
            {"server": f"https://{'x' * 64}.example"},
            {},
            "which is no http or https URL",
            id="a host whose name is too long",
        ),
        pytest.param(
            {"certificate-authority": "~no-such-user/ca.crt"},
            {},
            "names ~no-such-user/ca.crt, but this machine has no user of that name",
            id="somebody else's home folder",
        ),
        pytest.param(
            {"certificate-authority": "a\0b"},
            {},
            "which cannot be read: embedded null byte",
            id="a path that no file can have",
        ),
        pytest.param(
            {},
            {"auth-provider": {"name": "gcp"}},
            "auth-provider is no longer supported",
            id="an auth provider",
        ),
        pytest.param({}, {"exec": []}, "exec must be a mapping", id="exec as a list"),
        pytest.param(
            {}, {"exec": {**EXEC, "command": ""}}, "exec.command is missing", id="no command"
        ),
        pytest.param(
            {},
            {"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
            "exec.apiVersion must be",
            id="an old version",
        ),
        pytest.param(
            {},
            {"exec": {**EXEC, "interactiveMode": ""}},
            "exec.interactiveMode must be one of Never, IfAvailable, Always",
            id="v1 insists on a mode",
        ),
        pytest.param(
            {}, {"exec": {**EXEC, "args": [1]}}, "args must be a list of texts", id="a number"
        ),
    ],
)
def test_broken_entries(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], problem: str
) -> None:
    path = kubeconfig(tmp_path / "config", cluster=cluster, user=user)
    with pytest.raises(ConfigError) as caught:
        load(path)

    assert problem in str(caught.value)
    assert f"{path}:" in str(caught.value)


def test_a_mistake_elsewhere_in_the_file_does_no_harm(tmp_path: Path) -> None:
    broken = {"name": "other", "user": {"token": 5}}
    path = kubeconfig(tmp_path / "config", users=[broken, {"name": "main", "user": {}}])

    assert "https://main.example" == load(path).server


def test_nothing_at_all_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no cluster is configured: set KUBECONFIG"):
        load_config({"HOME": str(tmp_path)})


def test_a_folder_in_place_of_a_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the kubeconfig cannot be read"):
        load(tmp_path)


def test_a_home_folder_that_may_not_be_looked_at_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "exists", forbidden)
    monkeypatch.setattr(Path, "read_bytes", forbidden)

    with pytest.raises(ConfigError, match="the kubeconfig cannot be read: permission denied"):
        load_config({"HOME": str(tmp_path)})


def test_a_pod_whose_variables_make_no_address_is_told_so(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "tcp"}

    with pytest.raises(ConfigError, match=r"make https://10\.0\.0\.1:tcp, which is no URL"):
        load_config(environment, service_account=account(tmp_path / "account"))


def test_a_pod_without_a_token_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="let the pod mount its service account's token"):
        load_config({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, service_account=tmp_path)


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        ("https://a.example", {}, ""),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.example", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://a.example", {"HTTP_PROXY": "http://p:1"}, ""),
        ("http://a.example", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://localhost", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, ""),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b, example"}, ""),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "no_proxy": ".example"}, ""),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*.example"}, ""),
        ("https://example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example"}, "http://p:1"),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "xample"}, "http://p:1"),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://11.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://p:1"),
        ("https://[fd00::1]", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "fd00::/8"}, ""),
        ("https://[fd00::1]:5", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "[fd00::1]:5"}, ""),
        ("https://a.example:8443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example:8443"}, ""),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example:443"}, ""),
        (
            "https://a.example",
            {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.example:80"},
            "http://p:1",
        ),
    ],
)
def test_proxies_by_the_environment(server: str, environment: dict[str, str], proxy: str) -> None:
    assert proxy == proxy_for(server, environment)


@pytest.mark.parametrize("proxy", ["http://p:port", "socks5://p:1", "http://"])
def test_a_proxy_in_the_environment_that_makes_no_sense_is_one_sentence(proxy: str) -> None:
    with pytest.raises(ConfigError, match=r"^HTTPS_PROXY names no proxy .*; correct or unset it$"):
        proxy_for("https://a.example", {"HTTPS_PROXY": proxy})


def test_the_environment_names_a_proxy_where_the_kubeconfig_does_not(tmp_path: Path) -> None:
    config = load(kubeconfig(tmp_path / "config"), HTTPS_PROXY="http://p:1")

    assert "http://p:1" == config.proxy
