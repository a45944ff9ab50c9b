/// The page at `/`: shows a board live, with the people present and the author of each change. People add, edit, move
/// and delete cards by mouse or keyboard.
enum Page {
  static let html = #"""
    <!doctype html>
    <html lang="en">
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>LiveBoard</title>
    <link rel="stylesheet" href="/board.css">
    <div id="busy" hidden></div>
    <header>
      <div id="bar">
        <h1 id="title" dir="auto">LiveBoard</h1>
        <div id="switch"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="m4 6 4 4 4-4"/></svg>
          <select id="boards" aria-label="another board" data-tip="another board"></select></div>
        <button id="new" data-tip="new board">
          <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M8 3v10M3 8h10"/></svg><span>new board</span></button>
        <button id="delete" data-tip="delete board">
          <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M3 4.5h10m-6.5 0v-2h3v2m-5 0 .6 9h5.8l.6-9"/></svg>
          <span>delete board</span></button>
        <div id="people">
          <button id="crowd" aria-expanded="false" aria-controls="here" aria-label="who is here"></button>
          <div id="here"></div>
        </div>
        <label id="me">your name <input id="name" maxlength="40" autocomplete="nickname"></label>
      </div>
      <div id="past">
        <div id="slider">
          <svg viewBox="0 0 16 16" aria-hidden="true"><path
            d="M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0M8 4.5V8l2.5 1.5"/></svg>
          <button id="before" aria-label="a step back" data-tip="a step back" disabled>
            <svg viewBox="0 0 16 16" aria-hidden="true"><path d="m10 4-4 4 4 4"/></svg></button>
          <div id="track"><input type="range" id="time" min="1" max="1" value="1" disabled
            aria-label="history: the board as it was"></div>
          <button id="after" aria-label="a step forward" data-tip="a step forward" disabled>
            <svg viewBox="0 0 16 16" aria-hidden="true"><path d="m6 4 4 4-4 4"/></svg></button>
        </div>
        <div id="when"><span id="state" role="status">connecting</span> <span id="unread"></span></div>
        <button id="now" hidden>back to now</button>
        <p id="step"></p>
        <p id="undo" role="status"></p>
      </div>
    </header>
    <p id="problem" role="alert"></p>
    <nav id="jump" aria-label="columns"></nav>
    <main id="board">
      <div id="columns" aria-busy="true">
        <div class="skeleton"><i></i><i></i><i></i></div>
        <div class="skeleton"><i></i></div>
        <div class="skeleton"><i></i><i></i></div>
      </div>
    </main>
    <div id="tip" aria-hidden="true"></div>
    <script src="/board.js"></script>
    </html>
    """#
}
