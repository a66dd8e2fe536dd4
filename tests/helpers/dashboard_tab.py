"""A tab of a browser with the dashboard's page, for tests."""

from typing import Any


class Opened:
    """A tab with the page; whatever it says on the console and asks of others is noted."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, **options}, bypass_csp=False
        )
        self.tab = self.context.new_page()
        self.tab.set_default_timeout(10_000)
        self.heard: list[str] = []
        self.asked: list[str] = []
        self.tab.on("console", lambda message: self.heard.append(message.text))
        self.tab.on("pageerror", lambda error: self.heard.append(str(error)))
        self.tab.on("dialog", lambda dialog: self.heard.append(f"dialog {dialog.message}"))
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.goto(address)
        self.tab.wait_for_selector("main h1", state="attached")
        self.tab.wait_for_selector(".status.live")

    def go(self, route: str) -> None:
        self.tab.evaluate("route => { location.hash = route }", route)
        self.tab.wait_for_selector("main h1", state="attached")

    def text(self, selector: str = "main") -> str:
        return str(self.tab.inner_text(selector))

    def sees(self, text: str) -> None:
        self.tab.get_by_text(text).first.wait_for(state="attached")

    def address_of(self, name: str) -> str:
        """Where a module of the page lies."""
        base = self.tab.evaluate("document.querySelector('script[type=module]').src")
        return str(base).replace("app.js", name)

    def module(self, name: str, function: str, argument: Any = None) -> Any:
        """Run a function with a module of the page as its first argument."""
        script = f"async ([url, argument]) => ({function})(await import(url), argument)"
        return self.tab.evaluate(script, [self.address_of(name), argument])
