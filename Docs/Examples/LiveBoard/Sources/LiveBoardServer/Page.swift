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
      <label>your name <input id="name" maxlength="40"></label>
    </header>
    <p><span id="state" role="status">connecting</span> <span id="here"></span> <span id="unread"></span></p>
    <p id="problem" role="alert"></p>
    <p id="undo" role="status"></p>
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
    #columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1rem; }
    section { background: var(--column); border-radius: .5rem; padding: .75rem; min-height: 8rem; }
    section.over { outline: 2px solid #4c9aff; }
    h2 { margin: 0 0 .5rem; font-size: 1rem; }
    ul { list-style: none; margin: 0; padding: 0; }
    li { background: var(--card); border-radius: .35rem; padding: .3rem .4rem; margin-bottom: .5rem; cursor: grab;
      display: flex; flex-wrap: wrap; gap: .25rem; align-items: center; }
    li > span { flex: 1 1 100%; overflow-wrap: anywhere; }
    li > input { flex: 1 1 100%; }
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
    let version = 0, looked = 0, columns = [];

    // What the server answers; null where it did not do it. What went wrong stays on the page until something succeeds.
    async function ask(method, path, body) {
      let problem = "", json = null;
      try {
        const answer = await fetch(path, {
          method, headers: { "content-type": "application/json" }, body: body && JSON.stringify(body) });
        json = await answer.json().catch(() => ({}));
        if (!answer.ok) problem = json.error ? json.error.message : answer.statusText;
      } catch {
        problem = "The server does not answer. Nothing was changed, as far as is known.";
      }
      element("problem").textContent = problem;
      return problem === "" ? json : null;
    }

    function look() {
      if (!document.hidden) looked = version;
      const unread = version - looked;
      element("unread").textContent = unread ? unread + " unread" : "";
    }

    const move = (id, column, position) => ask("POST", root + "/cards/" + id + "/move", { column, position });

    async function remove(item, column, position) {
      if (!await ask("DELETE", root + "/cards/" + item.id)) return;
      const undo = button("undo", "bring back " + item.text, async () => {
        const made = await ask("POST", root + "/cards", { text: item.text, column });
        if (!made) return;
        element("undo").replaceChildren();
        await move(made.card, column, position);
      });
      element("undo").replaceChildren("Deleted “" + item.text + "”. ", undo);
      undo.focus();
    }

    function button(text, label, action) {
      const node = document.createElement("button");
      node.textContent = text;
      node.setAttribute("aria-label", label);
      node.title = label;
      node.onclick = action;
      return node;
    }

    // A card's place, as the board is now.
    function place(id) {
      for (const [column, { cards }] of columns.entries()) {
        const row = cards.findIndex(card => card.id === id);
        if (row >= 0) return { column, row, item: cards[row], name: columns[column].name };
      }
    }

    function card(id) {
      const node = document.createElement("li");
      node.dataset.card = id;
      node.draggable = true;
      node.ondragstart = event => event.dataTransfer.setData("text/plain", id);
      const text = document.createElement("span");
      const to = (columnStep, rowStep) => () => {
        const { column, row } = place(id);
        const target = columns[column + columnStep];
        if (target) move(id, target.name, columnStep ? target.cards.length : row + rowStep);
      };
      const edit = button("✎", "", () => {
        const input = document.createElement("input");
        input.value = place(id).item.text;
        input.setAttribute("aria-label", "text of the card");
        const close = () => { input.replaceWith(text); edit.focus(); };
        input.onkeydown = async event => {
          if (event.key === "Escape") close();
          // What was typed stays until it is saved.
          if (event.key === "Enter" && await ask("PATCH", root + "/cards/" + id, { text: input.value })) close();
        };
        text.replaceWith(input);
        input.focus();
      });
      text.ondblclick = () => edit.click();
      const buttons = [
        edit, button("←", "", to(-1, 0)), button("→", "", to(1, 0)), button("↑", "", to(0, -1)),
        button("↓", "", to(0, 1)),
        button("✕", "", () => { const now = place(id); remove(now.item, now.name, now.row); }),
      ];
      const labels = [
        "edit", "move to the column before:", "move to the next column:", "move up:", "move down:", "delete"];
      node.append(text, ...buttons);
      node.show = item => {
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
        move(id, name, below < 0 ? others.length : below);
      };
      const form = document.createElement("form");
      const input = document.createElement("input");
      input.placeholder = "a new card";
      input.setAttribute("aria-label", "a new card in " + name);
      form.onsubmit = async event => {
        event.preventDefault();
        const text = input.value;
        // What was typed stays until it is saved.
        if (await ask("POST", root + "/cards", { text, column: name }) && input.value === text) input.value = "";
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

    const sections = new Map(), cards = new Map();

    function show(state) {
      const focused = document.activeElement;
      version = state.version;
      columns = state.columns;
      document.title = state.title + " – LiveBoard";
      element("title").textContent = state.title;
      element("state").textContent = "version " + state.version;
      const there = new Set();
      const nodes = columns.map(column => column.cards.map(item => {
        const node = cards.get(item.id) || card(item.id);
        cards.set(item.id, node);
        there.add(item.id);
        node.show(item);
        return node;
      }));
      for (const id of cards.keys()) if (!there.has(id)) { cards.get(id).remove(); cards.delete(id); }
      columns.forEach((column, index) => {
        if (!sections.has(column.name)) {
          sections.set(column.name, makeColumn(column.name));
          element("columns").append(sections.get(column.name));
        }
        sections.get(column.name).show(column, nodes[index]);
      });
      // A node that was moved has lost it.
      if (focused && focused.isConnected && focused !== document.activeElement) focused.focus();
      look();
    }

    async function listBoards() {
      const boards = await ask("GET", "/boards") || [];
      const options = boards.map(item => new Option(item.title, item.id, false, String(item.id) === board));
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
    element("name").value = name;
    element("name").onchange = event => {
      localStorage.setItem("name", event.target.value);
      location.search = "?board=" + encodeURIComponent(board);
    };
    listBoards();

    // What the stream says, by its newest event of each kind.
    const newest = new Map();
    function receive(type, data) {
      newest.set(type, data);
      if (type === "board") show(JSON.parse(data));
      if (type === "attendance") {
        const { here, count } = JSON.parse(data);
        const others = count - here.length;
        element("here").textContent = "here: " + here.join(", ") + (others ? " and " + others + " more" : "");
      }
      if (type === "connection") {
        // A board that has not changed is not sent again.
        if (version) element("state").textContent = "version " + version;
        if (!data) element("state").textContent = "not connected: what is shown may be old";
        element("state").classList.toggle("away", !data);
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
      channel.onmessage = event => { if (event.data === "hello") newest.forEach((data, type) => tell(type, data)); };
      const events = new EventSource(root + "/events?name=" + encodeURIComponent(name));
      for (const type of ["board", "attendance"]) events.addEventListener(type, event => tell(type, event.data));
      events.onopen = () => tell("connection", true);
      events.onerror = () => tell("connection", false);
      return new Promise(() => {});
    }
    channel.onmessage = event => { if (event.data !== "hello") receive(...event.data); };
    channel.postMessage("hello");
    // There are no locks where a page has come over the network in plain text.
    if (navigator.locks) navigator.locks.request(stream, follow); else follow();
    document.onvisibilitychange = look;
    """
}
