"""The compiled problem: offerings as bits, pools as templates, pods as classes."""
