/// The page at `/`: shows a board live, and lets a person add, edit, move and delete cards, by mouse or by keyboard.
enum Page {
  static let html = """
    <!doctype html>
    <html lang="en">
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>LiveBoard</title>
    <link rel="stylesheet" href="/board.css">
    <header>
      <h1 id="title">LiveBoard</h1>
      <select id="boards" aria-label="another board"></select>
      <button id="new">new board</button>
      <button id="delete">delete board</button>
      <label>your name <input id="name" maxlength="40"></label>
    </header>
    <p><span id="state" role="status">connecting</span> <span id="here"></span> <span id="unread"></span></p>
    <p id="problem" role="alert"></p>
    <p id="undo" role="status"></p>
    <p id="past"><label>as it was <input type="range" id="time" min="1" max="1" value="1"></label>
      <button id="now" hidden>back to now</button></p>
    <main id="columns"></main>
    <script src="/board.js"></script>
    </html>
    """

  static let style = """
    :root { color-scheme: light dark; --back: #f4f5f7; --text: #172b4d; --soft: #505f79; --column: #ebecf0;
      --card: #fff; --line: #8993a4; --bad: #ae2400; }
    @media (prefers-color-scheme: dark) {
      :root { --back: #161a1d; --text: #dee4ea; --soft: #9fadbc; --column: #22272b; --card: #2c333a; --line: #738496;
        --bad: #ff9c8f; }
    }
    body { font: 16px/1.4 system-ui, sans-serif; margin: 1rem 1.5rem; background: var(--back); color: var(--text); }
    header { display: flex; gap: .75rem; align-items: center; flex-wrap: wrap; }
    h1 { margin: 0; font-size: 1.4rem; }
    p { margin: .4rem 0; min-height: 1.4em; color: var(--soft); }
    #state.away { color: #fff; background: #ae2400; padding: 0 .4rem; border-radius: .3rem; }
    #problem { color: var(--bad); }
    #problem:empty, #undo:empty { display: none; }
    #past, #past label { display: flex; gap: .5rem; align-items: center; }
    #time { width: min(25rem, 50vw); padding: 0; }
    #columns[inert] { opacity: .7; }
    #columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1rem; }
    section { background: var(--column); border-radius: .5rem; padding: .75rem; min-height: 8rem; }
    section.over { outline: 2px solid #4c9aff; }
    h2 { margin: 0 0 .5rem; font-size: 1rem; }
    ul { list-style: none; margin: 0; padding: 0; }
    li { background: var(--card); border-radius: .35rem; padding: .3rem .4rem; margin-bottom: .5rem; cursor: grab;
      display: flex; flex-wrap: wrap; gap: .25rem; align-items: center; }
    li > small { flex: 1 1 100%; color: var(--soft); overflow-wrap: anywhere; }
    li > small:empty { display: none; }
    li.yellow { border-left: .4rem solid #e2b203; }
    li.green { border-left: .4rem solid #22a06b; }
    li.blue { border-left: .4rem solid #388bff; }
    li > span { flex: 1 1 100%; overflow-wrap: anywhere; }
    li > input { flex: 1 1 100%; }
    /* A line of its own in the line: what a text says about the direction of writing ends with it. */
    bdi { display: inline-block; max-width: 100%; overflow-wrap: anywhere; }
    button, select, input { font: inherit; color: inherit; background: transparent; border: 1px solid var(--line);
      border-radius: .3rem; min-height: 2rem; }
    li button { border-color: transparent; min-width: 2rem; padding: 0; color: var(--soft); cursor: pointer; }
    form input { width: 100%; box-sizing: border-box; padding: .3rem .4rem; background: var(--card); }
    @media (max-width: 30rem) {
      body { margin: .75rem; }
      li button, form input { min-width: 2.75rem; min-height: 2.75rem; }
    }
    """

  static let script = """
    const query = new URLSearchParams(location.search);
    const board = query.get("board") || "1";
    const root = "/boards/" + encodeURIComponent(board);
    const element = id => document.getElementById(id);
    const name = query.get("name") || localStorage.getItem("name") || "guest " + Math.floor(Math.random() * 1000);
    // All tabs of a person have one stream.
    if (!query.get("name")) localStorage.setItem("name", name);
    // The newest board, one of before while somebody looks at that, and the columns of what is shown.
    let live = null, past = null, columns = [], looked = 0, sliding = false;

    // What the server answers; null where it did not do it. What went wrong with an edit stays on the page until
    // another succeeds.
    async function ask(method, path, body, key) {
      let problem = "", json = null;
      try {
        const headers = { "content-type": "application/json" };
        if (key) headers["idempotency-key"] = key;
        const answer = await fetch(path, {
          method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(15000) });
        json = await answer.json().catch(() => ({}));
        if (!answer.ok) problem = json.error ? json.error.message : answer.statusText;
      } catch {
        problem = "The server does not answer. Nothing was changed, as far as is known.";
      }
      if (problem || method !== "GET") element("problem").textContent = problem;
      return problem === "" ? json : null;
    }

    // Where what somebody has typed stands among other words.
    function quoted(text) {
      const node = document.createElement("bdi");
      node.textContent = text;
      return node;
    }

    function look() {
      if (!live) return;
      if (!document.hidden) looked = live.version;
      const unread = live.version - looked;
      element("unread").textContent = unread ? unread + " unread" : "";
    }

    // The last edit of this person can be undone, and done again.
    let last = 0;
    function done(what, text, answer, word = "undo") {
      if (!answer || !answer.version || answer.version < last) return answer;
      last = answer.version;
      const back = button(word, word + ": " + what + " “" + text + "”.", async () => {
        if (back.disabled || past) return;
        back.disabled = true;
        const undone = await ask("POST", root + "/undo", { version: answer.version });
        // What cannot be undone now never can.
        if (back.isConnected) element("undo").replaceChildren();
        if (undone) done(what, text, undone, word === "undo" ? "redo" : "undo");
        focusUndo();
      });
      element("undo").replaceChildren((word === "redo" ? "Undone: " : "") + what + " “", quoted(text), "”. ", back);
      return answer;
    }
    // Where nothing has the focus, as what had it is gone.
    function focusUndo() {
      const back = element("undo").querySelector("button");
      if (back && document.activeElement === document.body) back.focus();
    }
    document.onkeydown = event => {
      const back = element("undo").querySelector("button");
      const isMeant = (event.ctrlKey || event.metaKey) && event.key === "z" && !event.shiftKey && !event.repeat;
      if (!isMeant || !back || event.target.matches("input:not([type=range])")) return;
      event.preventDefault();
      back.click();
    };

    const add = async (text, column, key) =>
      done("Added", text, await ask("POST", root + "/cards", schema > 1 ? { text, column, author: name } : { text, column }, key));
    const edit = async ({ id, text }, newText) =>
      done("Changed", text, await ask("PATCH", root + "/cards/" + id, { text: newText }));
    const move = async ({ id, text }, column, position) =>
      done("Moved", text, await ask("POST", root + "/cards/" + id + "/move", { column, position }));
    // A note in the next colour, and after the last one a task.
    const kinds = ["task", "yellow", "green", "blue"];
    const colour = item => item.kind && item.kind.note ? item.kind.note.colour : "task";
    async function turn(item) {
      const next = kinds[(kinds.indexOf(colour(item)) + 1) % kinds.length];
      const kind = next === "task" ? { task: {} } : { note: { colour: next } };
      done("Changed", item.text, await ask("PUT", root + "/cards/" + item.id + "/kind", kind));
    }
    async function remove({ id, text }) {
      const node = cards.get(id);
      node.isLeaving = true;
      const answer = await ask("DELETE", root + "/cards/" + id);
      node.isLeaving = answer !== null;
      // The stream may not have said so yet.
      if (answer && cards.has(id) && cards.get(id).contains(document.activeElement)) document.activeElement.blur();
      done("Deleted", text, answer);
      if (answer) focusUndo();
    }

    function button(text, label, action) {
      const node = document.createElement("button");
      node.textContent = text;
      node.setAttribute("aria-label", label);
      node.title = label;
      node.onclick = action;
      return node;
    }

    // A card's place on the board that is shown.
    function place(id) {
      for (const [column, { cards }] of columns.entries()) {
        const row = cards.findIndex(card => card.id === Number(id));
        if (row >= 0) return { column, row, item: cards[row] };
      }
    }

    function card(id) {
      const node = document.createElement("li");
      node.dataset.card = id;
      node.draggable = true;
      node.ondragstart = event => event.dataTransfer.setData("text/plain", id);
      const text = document.createElement("span");
      const to = (columnStep, rowStep) => () => {
        const { column, row, item } = place(id);
        const target = columns[column + columnStep];
        if (target) move(item, target.name, columnStep ? target.cards.length : row + rowStep);
      };
      const change = button("✎", "", () => {
        const input = document.createElement("input");
        input.value = place(id).item.text;
        input.defaultValue = input.value;
        input.setAttribute("aria-label", "text of the card");
        const close = () => { input.replaceWith(text); change.focus(); };
        input.onkeydown = async event => {
          if (event.key === "Escape") close();
          // What was typed stays until it is saved.
          if (event.key === "Enter" && !event.isComposing && await edit(place(id).item, input.value)) close();
        };
        text.replaceWith(input);
        input.focus();
      });
      text.ondblclick = () => change.click();
      const buttons = [
        change, button("←", "", to(-1, 0)), button("→", "", to(1, 0)), button("↑", "", to(0, -1)),
        button("↓", "", to(0, 1)),
        button("✕", "", () => remove(place(id).item)),
        // What older servers do not read is not offered yet.
        ...(schema > 1 ? [button("■", "", () => turn(place(id).item))] : []),
      ];
      const labels = [
        "edit", "move to the column before:", "move to the next column:", "move up:", "move down:", "delete",
        "task, or note in the next colour:"];
      const author = document.createElement("small");
      node.append(text, author, ...buttons);
      node.show = item => {
        node.className = colour(item);
        author.textContent = item.author || "";
        if (node.item === item.text) return;
        node.item = item.text;
        text.textContent = item.text;
        buttons.forEach((button, index) => {
          button.setAttribute("aria-label", labels[index] + " " + item.text);
          button.title = labels[index].replace(":", "");
        });
      };
      return node;
    }

    function makeColumn(name) {
      const section = document.createElement("section");
      const heading = document.createElement("h2");
      const list = document.createElement("ul");
      section.setAttribute("aria-label", name);
      section.ondragover = event => { event.preventDefault(); section.classList.add("over"); };
      section.ondragleave = () => section.classList.remove("over");
      section.ondrop = event => {
        event.preventDefault();
        section.classList.remove("over");
        const id = event.dataTransfer.getData("text/plain");
        const others = [...list.children].filter(node => node.dataset.card !== id);
        const below = others.findIndex(node => {
          const box = node.getBoundingClientRect();
          return event.clientY < box.top + box.height / 2;
        });
        const dragged = place(id);
        if (dragged) move(dragged.item, name, below < 0 ? others.length : below);
      };
      const form = document.createElement("form");
      const input = document.createElement("input");
      input.placeholder = "a new card";
      input.setAttribute("aria-label", "a new card in " + name);
      let asked = {};
      form.onsubmit = async event => {
        event.preventDefault();
        const text = input.value;
        // The same text again is the same request until it is known to be saved: so it is not there twice.
        if (asked.text !== text) asked = { text, key: Date.now() + "-" + Math.random() };
        // What was typed stays until it is saved.
        if (!await add(text, name, asked.key)) return;
        asked = {};
        if (input.value === text) input.value = "";
      };
      form.append(input);
      section.append(heading, list, form);
      section.show = (column, nodes) => {
        heading.textContent = column.name + " (" + column.cards.length + ")";
        nodes.forEach((node, index) => {
          if (list.children[index] !== node) list.insertBefore(node, list.children[index] || null);
        });
        while (list.children.length > nodes.length) list.lastChild.remove();
      };
      return section;
    }

    // What is shown, and what the stream has said: the newest of each kind but the board, which is `live`.
    const sections = new Map(), cards = new Map(), newest = new Map();

    function show() {
      const focused = document.activeElement, board = past || live, time = element("time");
      columns = board.columns;
      document.title = "\\u2068" + board.title + "\\u2069 – LiveBoard";
      element("title").textContent = board.title;
      [time.min, time.max] = [Math.max(1, live.version - 100), live.version];
      if (!sliding) time.value = board.version;
      time.disabled = time.min === time.max;
      element("now").hidden = !past;
      // Nobody edits what was.
      element("columns").inert = past !== null;
      showState();
      const there = new Set();
      const nodes = columns.map(column => column.cards.map(item => {
        const node = cards.get(item.id) || card(item.id);
        cards.set(item.id, node);
        there.add(item.id);
        node.show(item);
        return node;
      }));
      for (const [id, node] of cards) if (!there.has(id)) takeAway(id, node);
      columns.forEach((column, index) => {
        if (!sections.has(column.name)) {
          sections.set(column.name, makeColumn(column.name));
          element("columns").append(sections.get(column.name));
        }
        sections.get(column.name).show(column, nodes[index]);
      });
      // A node that was moved has lost it.
      if (focused && focused.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
      look();
    }

    // What somebody is typing into a card stays: it is shown again with the card, or, where that is deleted, as a new
    // one.
    function takeAway(id, node) {
      const typed = node.querySelector("input"), section = node.closest("section") || element("columns").firstElementChild;
      const isTyping = typed === document.activeElement;
      node.remove();
      if (typed && past) return;
      cards.delete(id);
      if (!typed || typed.value === typed.defaultValue || node.isLeaving) return;
      const input = section.querySelector("form input");
      input.value = input.value ? input.value + " " + typed.value : typed.value;
      if (isTyping) input.focus();
      element("problem").textContent = "The card that you were editing is deleted. Its text can be added as a new one.";
    }

    function showState() {
      if (newest.has("deleted")) {
        element("state").textContent = "this board has been deleted";
        element("columns").inert = true;
        return;
      }
      const connected = newest.get("connection") !== false;
      const shown = past ? "version " + past.version + " of " + live.version + ", as it was" :
        live ? "version " + live.version : "connecting";
      element("state").textContent = connected ? shown : "not connected: what is shown may be old";
      element("state").classList.toggle("away", !connected);
    }

    let wanted = 0;
    element("time").oninput = async event => {
      const version = wanted = Number(event.target.value);
      // Until it is let go, what comes meanwhile does not move it.
      sliding = true;
      const was = version < live.version ? await ask("GET", root + "?version=" + version) : null;
      // It may be elsewhere by now.
      if (wanted !== version) return;
      past = was;
      show();
    };
    element("time").onchange = () => { sliding = false; };
    element("now").onclick = () => {
      past = null;
      wanted = 0;
      show();
      element("time").focus();
    };

    async function listBoards() {
      const boards = await ask("GET", "/boards") || [];
      // Of those that nobody has edited there is nothing to say.
      const about = ({ cards, version }) =>
        version ? " – " + cards + (cards === 1 ? " card" : " cards") + ", version " + version : "";
      const options = boards.map(item =>
        new Option("\\u2068" + item.title + "\\u2069" + about(item), item.id, false, String(item.id) === board));
      element("boards").replaceChildren(...options);
    }
    const open = id => { location.search = "?board=" + id; };
    element("boards").onfocus = listBoards;
    element("boards").onchange = event => open(event.target.value);
    element("new").onclick = async () => {
      const title = prompt("Title of the new board");
      const made = title && await ask("POST", "/boards", { title });
      if (made) open(made.board.id);
    };
    element("delete").onclick = async () => {
      const title = live && live.title;
      if (title && confirm("Delete “" + title + "” for good, with all that is on it?")) await ask("DELETE", root);
    };
    element("name").value = name;
    element("name").onchange = event => {
      localStorage.setItem("name", event.target.value);
      location.search = "?board=" + encodeURIComponent(board);
    };
    listBoards();

    async function receive(type, data, isLate = false) {
      if (type === "board") {
        const board = JSON.parse(data);
        // Another server may be behind for a moment; where it stays so, it is right.
        if (live && board.version < live.version && !isLate) {
          setTimeout(async () => receive("board", JSON.stringify(await ask("GET", root) || live), true), 3000);
          return;
        }
        live = board;
        show();
      } else if (type === "change") {
        const { version, card, after } = JSON.parse(data);
        if (!live || version <= live.version) return;
        if (version > live.version + 1) {
          // Something is missing.
          const now = await ask("GET", root);
          if (now && now.version > live.version) live = now;
        } else {
          for (const column of live.columns) column.cards = column.cards.filter(item => item.id !== card);
          if (after) live.columns[after.column].cards.splice(after.position, 0, { id: card, text: after.text, kind: after.kind, author: after.author });
          live.version = version;
        }
        show();
      } else {
        newest.set(type, data);
        showState();
      }
      if (type === "attendance") {
        const { here, count } = JSON.parse(data);
        const others = count - here.length;
        const names = here.flatMap((name, index) => [index ? ", " : "", quoted(name)]);
        element("here").replaceChildren("here: ", ...names, others ? " and " + others + " more" : "");
      }
    }

    // A browser opens few connections to one server: of the tabs that show a board one has the stream, and tells the
    // others. When it is closed another one takes it.
    const stream = board + " " + name;
    const channel = new BroadcastChannel(stream);
    function follow() {
      const tell = (type, data) => {
        receive(type, data);
        channel.postMessage([type, data]);
      };
      channel.onmessage = event => {
        if (event.data !== "hello") return;
        newest.forEach((data, type) => tell(type, data));
        if (live) tell("board", JSON.stringify(live));
      };
      (function connect() {
        const events = new EventSource(root + "/events?name=" + encodeURIComponent(name));
        // It beats every 15 seconds: where nothing is heard for longer, the connection is dead, whatever it looks like.
        let heard = Date.now();
        const watch = setInterval(() => {
          if (Date.now() - heard < 40000) return;
          clearInterval(watch);
          events.close();
          tell("connection", false);
          connect();
        }, 5000);
        events.addEventListener("beat", () => { heard = Date.now(); });
        for (const type of ["board", "change", "attendance", "deleted"])
          events.addEventListener(type, event => {
            heard = Date.now();
            tell(type, event.data);
            if (type !== "deleted") return;
            clearInterval(watch);
            events.close();
          });
        events.onopen = () => tell("connection", true);
        events.onerror = () => {
          tell("connection", false);
          // It tries again by itself, unless it was given another answer than a stream.
          if (events.readyState !== EventSource.CLOSED) return;
          clearInterval(watch);
          setTimeout(connect, 1000);
          // Why, if it says so.
          ask("GET", root);
        };
      })();
      return new Promise(() => {});
    }
    channel.onmessage = event => { if (event.data !== "hello") receive(...event.data); };
    channel.postMessage("hello");
    // There are no locks where a page has come over the network in plain text.
    if (navigator.locks) navigator.locks.request(stream, follow); else follow();
    document.onvisibilitychange = look;
    """
}
