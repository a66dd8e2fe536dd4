"""The only error of reading a manifest: a sentence with the file, line and column."""


class ManifestError(Exception):
    """A file that cannot be read as Kubernetes objects.

    ``line`` and ``column`` count from one; either is None where the problem has no such place
    (a file that does not exist has no line).
    """

    def __init__(self, name: str, line: int | None, column: int | None, problem: str) -> None:
        place = [str(number) for number in (line, column) if number is not None]
        super().__init__(f"{':'.join([name, *place])}: {problem}")
        self.name = name
        self.line = line
        self.column = column
        self.problem = problem
