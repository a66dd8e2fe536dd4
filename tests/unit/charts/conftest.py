"""Real helm for tests of the charts."""

from helpers.helm import helm as helm
