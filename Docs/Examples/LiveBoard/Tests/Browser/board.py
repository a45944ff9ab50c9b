"""What a person sees: the page in a real browser, against a server of its own.

Usage: board.py <the server's binary> [<a directory for pictures>]
"""

import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

PORT = 8097
PAGE = f"http://127.0.0.1:{PORT}/"


def start(binary, data):
    """Returns when the server listens."""
    server = subprocess.Popen(
        [binary, "--port", str(PORT), "--data", data], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in server.stdout:
        if "listening on" in line:
            return server
    raise SystemExit("The server did not start.")


def main(binary, pictures):
    data = tempfile.mkdtemp()
    server = start(binary, data)
    options = webdriver.ChromeOptions()
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1000,700"]:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))

    def until(condition, what):
        WebDriverWait(driver, 30, 0.02).until(lambda _: condition(), what)
        print("ok:", what)

    def text(name):
        return driver.execute_script("return document.getElementById(arguments[0]).innerText", name)

    def labelled(label):
        return driver.find_element(By.CSS_SELECTOR, f'[aria-label="{label}"]')

    def column(name):
        # At once, as the page may change meanwhile.
        return driver.execute_script(
            "return [...document.querySelectorAll(`[aria-label='${arguments[0]}'] li > span`)].map(n => n.textContent)",
            name)

    def picture(name):
        if pictures:
            driver.save_screenshot(str(pathlib.Path(pictures) / f"{name}.png"))

    def reads_forward(name, part):
        # Whether the letters of a part of the text stand from left to right, whatever is beside it.
        return driver.execute_script("""
            const walker = document.createTreeWalker(document.getElementById(arguments[0]), NodeFilter.SHOW_TEXT);
            for (let node; (node = walker.nextNode());) {
              const start = node.data.indexOf(arguments[1]);
              if (start < 0) continue;
              const left = index => {
                const range = document.createRange();
                range.setStart(node, index);
                range.setEnd(node, index + 1);
                return range.getBoundingClientRect().left;
              };
              return left(start) < left(start + arguments[1].length - 1);
            }
            return null;""", name, part)

    def ready():
        return driver.find_elements(By.CSS_SELECTOR, "section")

    try:
        driver.get(PAGE + "?name=ann")
        ann = driver.current_window_handle
        until(ready, "the board is shown")
        driver.switch_to.new_window("window")
        driver.get(PAGE + "?name=bob")
        bob = driver.current_window_handle
        until(ready, "it is shown in a second window")
        for card in ["one", "two", "three"]:
            labelled("a new card in To do").send_keys(card + Keys.ENTER)
            until(lambda: card in column("To do"), f"a card is added: {card}")
            until(lambda: labelled("a new card in To do").get_attribute("value") == "", "and its text is gone")
        driver.switch_to.window(ann)
        until(lambda: column("To do") == ["one", "two", "three"], "the other window has them")
        until(lambda: "ann, bob" in text("here"), "both are here")
        authors = driver.find_elements(By.CSS_SELECTOR, "li > small")
        assert [node.text for node in authors] == ["bob"] * 3, "whose they are is shown"
        picture("two-windows")

        # By keyboard.
        labelled("move to the next column: one").send_keys(Keys.ENTER)
        until(lambda: column("Doing") == ["one"], "a card is moved by keyboard")
        until(
            lambda: driver.switch_to.active_element.get_attribute("aria-label") == "move to the next column: one",
            "and the focus stays")
        labelled("move up: three").send_keys(Keys.ENTER)
        until(lambda: column("To do") == ["three", "two"], "up, too")
        labelled("edit two").send_keys(Keys.ENTER)
        labelled("text of the card").send_keys(" changed" + Keys.ENTER)
        until(lambda: column("To do") == ["three", "two changed"], "a card is edited by keyboard")
        labelled("delete three").send_keys(Keys.ENTER)
        until(lambda: column("To do") == ["two changed"], "a card is deleted")
        until(lambda: "Deleted" in text("undo"), "which can be undone")
        driver.switch_to.active_element.send_keys(Keys.ENTER)
        until(lambda: column("To do") == ["three", "two changed"], "and it comes back to where it was")
        until(lambda: "redo" in text("undo"), "an undo can be undone")
        driver.switch_to.active_element.send_keys(Keys.ENTER)
        until(lambda: column("To do") == ["two changed"], "it is deleted again")
        driver.switch_to.active_element.send_keys(Keys.CONTROL + "z")
        until(lambda: column("To do") == ["three", "two changed"], "and back by Control-Z")

        # Another kind.
        turn = labelled("task, or note in the next colour: one")
        turn.send_keys(Keys.ENTER)
        until(lambda: driver.find_elements(By.CSS_SELECTOR, "li.yellow"), "a task becomes a note")
        assert column("Doing") == ["one"]
        for colour in ["green", "blue", "task"]:
            turn.send_keys(Keys.ENTER)
            until(lambda: driver.find_elements(By.CSS_SELECTOR, f"section[aria-label=Doing] li.{colour}"), f"and {colour}")

        # By mouse.
        item = labelled("To do").find_elements(By.CSS_SELECTOR, "li")[0]
        ActionChains(driver).drag_and_drop(item, labelled("Done")).perform()
        until(lambda: column("Done") == ["three"], "a card is dragged")

        # As it was.
        slider = driver.find_element(By.ID, "time")
        slider.send_keys(Keys.HOME)
        until(lambda: "version 1 of" in text("state") and column("To do") == [], "the board is shown as it was at first")
        assert column("Done") == [] and driver.find_element(By.ID, "columns").get_attribute("inert") is not None
        for _ in range(3):
            slider.send_keys(Keys.RIGHT)
        until(lambda: column("To do") == ["one", "two", "three"], "and later")
        picture("past")
        driver.switch_to.window(bob)
        labelled("a new card in Doing").send_keys("meanwhile" + Keys.ENTER)
        until(lambda: "meanwhile" in column("Doing"), "the other window goes on")
        driver.switch_to.window(ann)
        assert column("To do") == ["one", "two", "three"], "what was is not disturbed"
        driver.find_element(By.ID, "now").click()
        until(lambda: "meanwhile" in column("Doing") and column("Done") == ["three"], "and back to now")
        labelled("delete meanwhile").send_keys(Keys.ENTER)
        until(lambda: "meanwhile" not in column("Doing"), "where cards can be edited again")

        # What is being typed into a card that goes.
        labelled("edit two changed").send_keys(Keys.ENTER)
        labelled("text of the card").send_keys(" and more")
        slider.send_keys(Keys.HOME)
        until(lambda: "version 1 of" in text("state"), "the card was not there at first")
        driver.find_element(By.ID, "now").click()
        until(lambda: labelled("text of the card").get_attribute("value") == "two changed and more",
              "what was being typed is there again")
        driver.switch_to.window(bob)
        labelled("delete two changed").send_keys(Keys.ENTER)
        until(lambda: "Deleted" in text("undo"), "another deletes the card")
        undone = driver.find_element(By.CSS_SELECTOR, "#undo button")
        driver.switch_to.window(ann)
        until(lambda: labelled("a new card in To do").get_attribute("value") == "two changed and more",
              "and its text can be a new one")
        assert "is deleted" in text("problem")
        labelled("a new card in To do").clear()
        driver.switch_to.window(bob)
        undone.click()
        driver.switch_to.window(ann)
        until(lambda: column("To do") == ["two changed"], "the card is back")
        labelled("edit two changed").send_keys(Keys.ENTER)
        driver.switch_to.window(bob)
        until(lambda: text("undo").startswith("Undone"), "and can be deleted again")
        labelled("delete two changed").send_keys(Keys.ENTER)
        until(lambda: text("undo").startswith("Deleted"), "it is deleted once more")
        undone = driver.find_element(By.CSS_SELECTOR, "#undo button")
        driver.switch_to.window(ann)
        until(lambda: column("To do") == [] and not driver.find_elements(By.CSS_SELECTOR, "li input"),
              "with the editor in which nothing was typed")
        assert labelled("a new card in To do").get_attribute("value") == ""
        driver.switch_to.window(bob)
        undone.click()
        driver.switch_to.window(ann)
        until(lambda: column("To do") == ["two changed"], "and is back")

        # Without the server.
        server.send_signal(signal.SIGKILL)
        server.wait()
        until(lambda: "not connected" in text("state"), "the page says that it is not connected")
        labelled("a new card in Done").send_keys("typed meanwhile" + Keys.ENTER)
        until(lambda: "does not answer" in text("problem"), "and what was not done")
        assert labelled("a new card in Done").get_attribute("value") == "typed meanwhile"
        picture("away")
        server = start(binary, data)
        until(lambda: "version" in text("state"), "it is connected again by itself")
        assert labelled("a new card in Done").get_attribute("value") == "typed meanwhile"
        labelled("a new card in Done").send_keys(Keys.ENTER)
        until(lambda: column("Done") == ["three", "typed meanwhile"], "what was typed is still there, and is saved")
        assert text("problem") == ""

        # What the server refuses.
        labelled("a new card in Done").send_keys("x" * 1001 + Keys.ENTER)
        until(lambda: "too long" in text("problem"), "a refusal is told")
        assert len(labelled("a new card in Done").get_attribute("value")) == 1001
        labelled("a new card in Done").clear()

        # Other boards.
        driver.execute_script("window.prompt = () => 'Another'")
        driver.find_element(By.ID, "new").click()
        until(lambda: text("title") == "Another", "a board is made")
        until(lambda: "Another" in text("boards") and "First board" in text("boards"), "and listed")

        driver.execute_script("window.confirm = () => true")
        driver.find_element(By.ID, "delete").click()
        until(lambda: "has been deleted" in text("state"), "a board is deleted")
        assert driver.find_element(By.ID, "columns").get_attribute("inert") is not None
        driver.get(PAGE)
        until(lambda: "First board" in text("boards") and "Another" not in text("boards"), "and listed no more")
        assert " cards, version " in text("boards"), text("boards")

        # Many tabs of one person, who has not said who that is.
        driver.get(PAGE)
        tabs = [driver.current_window_handle]
        for _ in range(9):
            driver.switch_to.new_window("tab")
            driver.get(PAGE)
            tabs.append(driver.current_window_handle)
        until(lambda: column("Done") == ["three", "typed meanwhile"], "the tenth tab is alive")
        labelled("a new card in Doing").send_keys("from the tenth" + Keys.ENTER)
        for tab in tabs:
            driver.switch_to.window(tab)
            until(lambda: "from the tenth" in column("Doing"), "and so are the others")
        driver.switch_to.window(tabs[0])
        driver.close()
        driver.switch_to.window(tabs[1])
        labelled("a new card in Doing").send_keys("once more" + Keys.ENTER)
        driver.switch_to.window(tabs[2])
        until(lambda: "once more" in column("Doing"), "also when the tab with the stream is closed")

        # What a text says about the direction of writing: override, and an end of what isolates it.
        turning = "\u2069\u202e"
        driver.get(PAGE + "?name=zoe")
        zoe = driver.current_window_handle
        driver.switch_to.new_window("window")
        driver.get(PAGE + "?" + urllib.parse.urlencode({"name": "!" + turning + "mallory"}))
        until(ready, "somebody comes whose name turns what follows round")
        labelled("a new card in Done").send_keys(turning + "turned" + Keys.ENTER)
        until(lambda: "turned" in text("undo"), "and adds a card that does, too")
        assert reads_forward("undo", "”."), "what follows the card's text is turned round"
        driver.switch_to.window(zoe)
        until(lambda: "mallory" in text("here") and "zoe" in text("here"), "another person sees them")
        assert reads_forward("here", "zoe") and reads_forward("here", "here"), "the other names are turned round"

        # Narrow, and dark.
        driver.get(PAGE)
        until(ready, "the first board is shown again")
        driver.set_window_size(375, 700)
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        wide = driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"375 pixels are too few by {wide}"
        picture("narrow-dark")
        for node in driver.find_elements(By.CSS_SELECTOR, "button, input, select"):
            assert node.accessible_name or not node.is_displayed(), f"no name: {node.get_attribute('outerHTML')}"
        print("ok: everything has a name")
        for entry in driver.get_log("browser"):
            assert "Content Security Policy" not in entry["message"], entry
    finally:
        driver.quit()
        server.terminate()
        status = server.wait(30)
        shutil.rmtree(data)
    assert status == 0, f"the server ended with {status}"


main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
