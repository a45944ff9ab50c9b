extension Page {
  /// Light and dark, for windows from 320 pixels on. The contrast is at least 4.5 for text, and at least 3 for symbols.
  static let style = #"""
    :root { color-scheme: light dark; --back: #eef1f6; --bar: #fff; --text: #1a2233; --soft: #4c586d; --column: #e2e7ef;
      --card: #fff; --line: #717d93; --faint: #cdd4df; --accent: #3150d0; --on-accent: #fff; --bad: #b3261e;
      --good: #1a7f4b; --tone: .5; --on-tone: #fff; --lift: 0 1px 2px #1a223326, 0 1px 6px #1a223314; --yellow: #fff4cc;
      --green: #dcf5e5; --blue: #dfeaff; }
    @media (prefers-color-scheme: dark) {
      :root { --back: #0f1319; --bar: #171c25; --text: #e6eaf2; --soft: #a9b4c6; --column: #1a202b; --card: #272f3d;
        --line: #77839a; --faint: #343d4d; --accent: #9db2ff; --on-accent: #10162b; --bad: #ff9c92; --good: #6fd8a0;
        --tone: .78; --on-tone: #10141c; --lift: 0 1px 3px #0008; --yellow: #443b17; --green: #183c2c;
        --blue: #1e3559; }
    }
    * { box-sizing: border-box; }
    [hidden] { display: none !important; }
    body { font: 15px/1.45 system-ui, sans-serif; margin: 0; background: var(--back); color: var(--text);
      height: 100dvh; display: flex; flex-direction: column; }
    p, h1, h2, ul { margin: 0; padding: 0; }
    ul { list-style: none; }
    /* An inline block, so that a text's writing direction does not affect its surroundings. */
    bdi { display: inline-block; max-width: 100%; overflow-wrap: anywhere; }
    svg { width: 1rem; height: 1rem; flex: none; fill: none; stroke: currentColor; stroke-width: 1.75;
      stroke-linecap: round; stroke-linejoin: round; }
    button, select, input { font: inherit; color: inherit; background: transparent; border: 1px solid var(--line);
      border-radius: .5rem; min-height: 2.25rem; padding: 0 .6rem; }
    button { display: inline-flex; gap: .4rem; align-items: center; justify-content: center; cursor: pointer;
      white-space: nowrap; }
    button:disabled { opacity: .4; cursor: default; }
    button:hover:not(:disabled) { background: color-mix(in srgb, currentColor 9%, transparent); }
    :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
    ::placeholder { color: var(--soft); opacity: 1; }
    /* Only for screen readers. */
    #here:not(.open), #here.open i { position: absolute; width: 1px; height: 1px; overflow: hidden;
      clip-path: inset(50%); white-space: nowrap; }
    #bar, #past { background: var(--bar); padding: .5rem 1.25rem; display: flex; gap: .5rem .6rem;
      align-items: center; }
    #bar { padding-top: .75rem; }
    h1 { font-size: 1.3rem; line-height: 1.3; min-width: 0; overflow: hidden; text-overflow: ellipsis;
      white-space: nowrap; }
    #switch { position: relative; display: grid; place-items: center; flex: none; }
    #switch svg { position: absolute; pointer-events: none; }
    /* The title beside it already shows its text. */
    #boards { width: 2.25rem; color: transparent; appearance: none; cursor: pointer; }
    #boards option { color: var(--text); background: var(--bar); }
    #new, #delete { border-color: transparent; color: var(--soft); }
    #people { position: relative; margin-left: auto; flex: none; }
    #me { display: flex; gap: .5rem; align-items: center; color: var(--soft); white-space: nowrap; }
    #name { width: 9rem; color: var(--text); }

    /* A person: coloured initials. */
    .disc, #here li::before, li > small::before { content: attr(data-initials); content: attr(data-initials) / "";
      flex: none; display: inline-grid; place-items: center; width: 2.1em; height: 2.1em; border-radius: 50%;
      font-size: .8rem; font-weight: 600; line-height: 1; letter-spacing: -.02em; forced-color-adjust: none;
      background: oklch(var(--tone) .13 var(--hue)); color: var(--on-tone); }
    .disc::before { content: attr(data-initials); content: attr(data-initials) / ""; }
    #crowd { border-color: transparent; gap: 0; padding: 0 .25rem; border-radius: 2rem; }
    #crowd .disc { box-shadow: 0 0 0 2px var(--bar); margin-left: -.25rem; width: 2.1rem; height: 2.1rem;
      font-size: .75rem; }
    #crowd .disc:first-child { margin-left: 0; }
    #crowd .disc.me { box-shadow: 0 0 0 2px var(--bar), 0 0 0 4px var(--accent); z-index: 1; }
    #crowd .more { background: var(--faint); color: var(--text); width: auto; min-width: 2.1rem; padding: 0 .4rem;
      border-radius: 1.1rem; }
    #crowd .more::before { content: none; }
    #here.open { position: absolute; z-index: 5; right: 0; top: calc(100% + .4rem); width: max-content;
      max-width: min(20rem, 90vw); max-height: 60vh; overflow-y: auto; padding: .75rem; background: var(--bar);
      border: 1px solid var(--faint); border-radius: .75rem; box-shadow: 0 8px 30px #0003; }
    #here ul, #here li { display: inline; }
    #here.open ul { display: block; }
    #here.open li { display: flex; gap: .6rem; align-items: center; padding: .2rem 0; }
    #here li.me bdi::after { content: " (you)"; color: var(--soft); }
    #past { gap: .5rem .9rem; padding-bottom: .65rem; border-bottom: 1px solid var(--faint); color: var(--soft); }
    #when { flex: none; }
    #state { display: inline-flex; gap: .45rem; align-items: center; }
    #state::before { content: ""; flex: none; width: .6rem; height: .6rem; border-radius: 50%;
      background: var(--good); }
    #state.then::before { background: var(--accent); }
    #state.away { color: #fff; background: #ae2400; padding: .15rem .6rem; border-radius: .5rem; }
    #state.away::before { background: #fff; }
    #unread:not(:empty) { color: var(--on-accent); background: var(--accent); padding: .1rem .5rem; border-radius: 1rem;
      font-size: .8rem; }
    #slider { display: flex; align-items: center; gap: .15rem; flex: 0 0 25rem; }
    #slider button { border-color: transparent; padding: 0 .4rem; }
    #now { border-color: var(--accent); color: var(--accent); }
    /* Each segment is a change, in its author's colour. Segments after the displayed version are pale. */
    #track { position: relative; flex: 1 1 6rem; min-width: 5rem; display: grid; align-items: center; }
    #track::before { content: ""; position: absolute; inset: auto .55rem; height: .5rem; border-radius: .25rem;
      forced-color-adjust: none; background: linear-gradient(to right, transparent var(--shown, 100%),
      color-mix(in srgb, var(--bar) 75%, transparent) 0), linear-gradient(to right, var(--steps, var(--faint),
      var(--faint))); }
    #time { position: relative; appearance: none; width: 100%; margin: 0; padding: 0; border: 0; background: none;
      cursor: pointer; }
    #time::-webkit-slider-thumb { appearance: none; width: 1.1rem; height: 1.1rem; border-radius: 50%;
      background: var(--bar); border: .3rem solid var(--accent); box-shadow: 0 0 0 2px var(--bar); }
    #time::-moz-range-thumb { box-sizing: border-box; width: 1.1rem; height: 1.1rem; border-radius: 50%;
      background: var(--bar); border: .3rem solid var(--accent); box-shadow: 0 0 0 2px var(--bar); }
    #time:disabled { cursor: default; }
    #step { display: flex; gap: .5rem; align-items: center; flex: 1 1 12rem; min-width: 0; min-height: 2.25rem; }
    /* User text shrinks, the words around it do not. */
    .what, #undo { display: flex; min-width: 0; white-space: pre; }
    .what bdi, #undo bdi { flex: 0 1 auto; min-width: 1ch; overflow: hidden; text-overflow: ellipsis;
      white-space: nowrap; color: var(--text); }
    #step b { display: flex; flex: none; max-width: 12rem; }
    #step time { flex: none; }
    #undo { flex: 0 1 auto; max-width: 24rem; align-items: center; }
    #undo:empty { display: none; }
    #undo button { flex: none; margin-left: .6rem; color: var(--accent); border-color: var(--accent); }
    #problem { padding: .5rem 1.25rem; color: var(--bad); background: color-mix(in srgb, var(--bad) 9%, var(--bar)); }
    #problem:empty { display: none; }
    #jump { display: none; }
    #board { flex: 1; min-height: 0; overflow: auto; padding: 0 1.25rem; }
    #columns { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(13.5rem, 1fr); gap: 1rem;
      min-height: 100%; padding: 1rem 0; }
    #columns[inert] li { cursor: default; }
    section, .skeleton { background: var(--column); border-radius: .9rem; padding: 0 .7rem; display: flex;
      flex-direction: column; min-width: 0; }
    section.over { box-shadow: 0 0 0 2px var(--accent); }
    /* A little wider than the cards that scroll below them. */
    h2, form { position: sticky; z-index: 2; margin: 0 -3px; display: flex; align-items: center;
      background: var(--column); }
    h2 { top: 0; gap: .5rem; padding: .8rem .4rem .1rem; font-size: 1rem; }
    h2 b { font-weight: 600; font-size: .8rem; color: var(--soft); background: var(--back); border-radius: 1rem;
      padding: .1rem .55rem; }
    section > ul { flex: 1; padding-top: .5rem; }
    section > ul:empty::before { content: "nothing here"; display: block; text-align: center; color: var(--soft);
      border: 1px dashed var(--line); border-radius: .6rem; padding: .7rem; }
    form { bottom: 0; gap: .4rem; padding: .3rem 3px .7rem; }
    form input { flex: 1; min-width: 0; background: var(--card); }
    form button { flex: none; width: 2.25rem; padding: 0; }
    li.card, div.card { position: relative; background: var(--card); border-radius: .6rem; padding: .55rem .7rem;
      margin-bottom: .5rem; box-shadow: var(--lift); border-left: .3rem solid transparent; }
    li.card { cursor: grab; scroll-margin: 4rem; }
    li.card:focus { outline: none; }
    .card > :is(span, del) { display: block; overflow-wrap: anywhere; white-space: pre-line; unicode-bidi: isolate; }
    .card > input { width: 100%; background: var(--bar); }
    .card > small { display: flex; gap: .4rem; align-items: center; margin-top: .35rem; color: var(--soft);
      font-size: .85rem; overflow-wrap: anywhere; unicode-bidi: isolate; }
    .card > small::before { font-size: .62rem; }
    .card > small:empty { display: none; }
    .card.yellow { background: var(--yellow); border-left-color: #d9a400; }
    .card.green { background: var(--green); border-left-color: #1f9d62; }
    .card.blue { background: var(--blue); border-left-color: #3b7dea; }
    /* Floats over the upper edge of a hovered or focused card, so it takes no space. */
    .tools { position: absolute; z-index: 3; top: -.9rem; right: .4rem; max-width: calc(100% - .4rem); display: flex;
      background: var(--bar); border: 1px solid var(--faint); border-radius: .5rem; box-shadow: var(--lift); opacity: 0;
      pointer-events: none; }
    li:is(:hover, :focus-within) > .tools { opacity: 1; pointer-events: auto; }
    .tools button { border: 0; min-height: 1.9rem; width: 1.9rem; flex: 0 1 auto; padding: 0; color: var(--soft); }
    li.dragged { opacity: .45; }
    li.dragged > .tools { display: none; }
    li.below::before, ul.end::after { content: ""; display: block; height: 3px; border-radius: 2px;
      background: var(--accent); }
    li.below::before { position: absolute; inset: -.4rem 0 auto; }
    /* Recently changed by somebody else, or changed by the displayed step. */
    li.changed { box-shadow: 0 0 0 2px oklch(var(--tone) .13 var(--hue)); }
    li.changed::after { content: attr(data-by); content: attr(data-by) / ""; position: absolute; z-index: 1;
      top: -.6rem; left: .5rem; max-width: 70%; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
      unicode-bidi: isolate; font-size: .75rem; font-weight: 600; line-height: 1.3; padding: 0 .45rem;
      border-radius: .6rem; background: oklch(var(--tone) .13 var(--hue)); color: var(--on-tone); }
    li.gone { background: transparent; box-shadow: none; outline: 2px dashed oklch(var(--tone) .13 var(--hue));
      outline-offset: -2px; color: var(--soft); }
    div.card { position: fixed; margin: 0; pointer-events: none; z-index: 4; }
    #tip { position: fixed; z-index: 9; left: 0; top: 0; max-width: min(20rem, 90vw); padding: .2rem .55rem;
      border-radius: .4rem; background: var(--text); color: var(--bar); font-size: .85rem; overflow-wrap: anywhere;
      pointer-events: none; unicode-bidi: isolate; }
    #tip:empty { display: none; }
    #busy { position: fixed; z-index: 9; inset: 0 0 auto; height: 3px; background: var(--accent);
      transform-origin: left; animation: busy 2s .4s infinite backwards; }
    @keyframes busy {
      0% { transform: scaleX(0); }
      70% { transform: none; opacity: 1; }
      100% { transform: none; opacity: 0; }
    }
    .skeleton { padding-top: 3.1rem; min-height: 12rem; }
    .skeleton i { height: 4rem; margin-bottom: .5rem; border-radius: .6rem; background: var(--card); opacity: .75;
      animation: breathe 1.2s infinite alternate ease-in-out; }
    @keyframes breathe { to { opacity: .3; } }
    @media (prefers-reduced-motion: reduce) { .skeleton i, #busy { animation: none; } }
    @media (min-width: 100rem) { #slider { flex-basis: 40rem; } #undo { max-width: 36rem; } }

    @media (max-width: 75rem) { #past { flex-wrap: wrap; } #step { flex: 1 1 60%; } }
    @media (max-width: 58rem) {
      #new, #delete { padding: 0 .5rem; }
      #new span, #delete span { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
    }
    @media (max-width: 46rem) {
      #bar, #past { flex-wrap: wrap; padding-left: .75rem; padding-right: .75rem; }
      #bar { padding-bottom: 0; }
      h1 { flex: 0 1 auto; max-width: calc(100% - 8.5rem); }
      #slider { flex: 1 1 100%; }
      #when { flex: 1; }
      form { position: static; }
      #people { margin-left: 0; order: 2; }
      #here.open { left: 0; right: auto; }
      #me { order: 3; flex: 1 1 9.75rem; min-width: 0; justify-content: flex-end; }
      #name { flex: 0 1 8rem; min-width: 4rem; }
      #step { flex: 1 1 100%; min-height: 0; }
      .what { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden;
        white-space: normal; }
      #step :is(b, bdi) { display: inline; white-space: normal; }
      #undo { flex: 1 1 100%; max-width: none; }
      #jump { display: flex; gap: .4rem; padding: .5rem .75rem; }
      #jump button { flex: 1; min-width: 0; padding: 0 .3rem; background: var(--bar); border-color: var(--faint); }
      #jump b { color: var(--soft); font-weight: 600; }
      #board { padding: 0 .75rem; }
      #columns { grid-auto-flow: row; grid-template-columns: minmax(0, 1fr); min-height: 0; padding: 0 0 .6rem; }
    }
    @media (hover: none) {
      button, select, input { min-height: 2.75rem; }
      form button { width: 2.75rem; }
      .card > span { padding-right: 1.2rem; }
      .tools { top: -2.5rem; }
      .tools button { min-height: 2.75rem; width: 2.75rem; }
      li.card:not(.gone)::before { content: "\22ef"; content: "\22ef" / ""; position: absolute;
        inset: .1rem .5rem auto auto; color: var(--soft); }
    }
    /* Too low for sticky elements. */
    @media (max-height: 32rem) {
      body { height: auto; min-height: 100dvh; }
      #board { overflow: visible; }
      form { position: static; }
    }
    """#
}
