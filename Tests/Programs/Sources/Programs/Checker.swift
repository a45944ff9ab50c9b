/// Compares a run with the model.
public struct Checker {
  private let recorded: Recorded
  private let features: Features
  private let program: Program
  private let model: Model
  /// For each commit, the span of the call that led to it; nil if no call did.
  private var spans: [Span?]
  /// The indices of each action's commits.
  private var places: [Int: Range<Int>] = [:]
  private var failures: [String] = []

  /// All failures, each with the guarantee that it breaks.
  public static func failures(of recorded: Recorded, features: Features = .all) -> [String] {
    var checker = Checker(recorded, features)
    checker.check()
    return checker.failures
  }

  private init(_ recorded: Recorded, _ features: Features) {
    self.recorded = recorded
    self.features = features
    program = recorded.program
    model = Model(program, commits: recorded.commits)
    spans = Array(repeating: nil, count: recorded.commits.count)
  }

  private var count: Int { recorded.commits.count }

  private mutating func fail(_ text: String) { failures.append(text) }

  private mutating func check() {
    failures += recorded.violations
    checkCommits()
    guard failures.isEmpty else { return }
    for call in recorded.calls { checkAnswer(call) }
    for read in recorded.reads { checkRead(read) }
    checkOrder()
    for followed in recorded.followed { checkFollowed(followed) }
    checkObservers()
    checkInterceptors()
    checkEnds()
    for history in recorded.histories { checkHistory(history) }
    for statistics in recorded.statistics
    where statistics.commits > statistics.seenAfter || statistics.commits < statistics.span.seen {
      fail(
        "statistics tell of \(statistics.commits) commits between \(statistics.span.seen) and \(statistics.seenAfter)")
    }
  }

  // MARK: Commits (G2, G9)

  private mutating func checkCommits() {
    var found: [Int: Range<Int>] = [:]
    for (place, action) in recorded.commits.enumerated() {
      if let range = found[action.given] {
        if range.upperBound != place {
          fail("G9 action \(action.given) is committed again at \(place + 1), after \(range.upperBound)")
        }
        found[action.given] = range.lowerBound..<place + 1
      } else {
        found[action.given] = place..<place + 1
      }
    }
    places = found
    var called: Set<Int> = []
    for call in recorded.calls {
      let given = call.action.given
      called.insert(given)
      let range = found[given] ?? 0..<0
      for place in range { spans[place] = call.span }
      let actual = Array(recorded.commits[range])
      let mapped = call.views.mapped(call.action)
      let (expected, _) = mapped.map { program.middleware(of: $0.store)($0) } ?? ([], nil)
      let isAsExpected = actual.count == expected.count && zip(actual, expected).allSatisfy { $0.isSame(as: $1) }
      switch call.outcome {
      case .enqueued, .committed, .read, .stateUnavailable, .rejected:
        if !isAsExpected {
          fail(
            "G9 action \(given), answered \(call.outcome), is committed \(actual.count) times and not "
              + "\(expected.count), or as another"
          )
        }
      case .terminated, .unmapped:
        if !actual.isEmpty { fail("G9 action \(given), answered \(call.outcome), is committed") }
      case .unknown:
        if !actual.isEmpty, !isAsExpected { fail("G9 action \(given) is committed as another") }
      }
    }
    for given in found.keys where !called.contains(given) { fail("G9 action \(given) is committed and nobody gave it") }
  }

  private mutating func checkAnswer(_ call: Call) {
    let given = call.action.given
    let mapped = call.views.mapped(call.action)
    let (expected, reason) = mapped.map { program.middleware(of: $0.store)($0) } ?? ([], nil)
    if mapped == nil, call.outcome != .unmapped, call.outcome != .terminated, call.outcome != .unknown {
      fail("G9 action \(given) maps to nothing and was answered \(call.outcome)")
    }
    let store = call.action.store
    switch call.outcome {
    case .enqueued, .unknown: break
    case .unmapped: if mapped != nil { fail("G9 action \(given) was answered unmapped") }
    case .committed, .stateUnavailable, .read:
      if expected.isEmpty { fail("G9 action \(given) was stopped and answered \(call.outcome)") }
      if let last = places[given]?.upperBound {
        let state = model.state(via: Via(store, views: call.views), after: last)
        switch call.outcome {
        case .read(let read):
          if state?.isSame(as: read) != true {
            fail("G3 action \(given) reads \(read) and not \(state?.description ?? "nothing")")
          }
        case .stateUnavailable: if state != nil { fail("G9 action \(given) finds no state at \(last)") }
        default: break
        }
      }
    case .rejected(let actual):
      if !expected.isEmpty || actual != reason?.description {
        fail("G9 action \(given) was rejected by \(actual ?? "nothing") and not by \(reason?.description ?? "nothing")")
      }
    case .terminated:
      if !couldBeClosed(store, before: call.span.end) { fail("G9 action \(given) finds store \(store) terminated") }
    }
    switch call.outcome {
    case .enqueued, .committed, .read, .stateUnavailable, .rejected:
      if mustBeClosed(store, before: call.span.begin) {
        fail("G9 action \(given) is answered \(call.outcome) after the shutdown of store \(store)")
      }
    case .terminated, .unmapped, .unknown: break
    }
  }

  /// Whether the end of a store may have begun.
  private func couldBeClosed(_ store: Int, before stamp: Int) -> Bool {
    recorded.closings.contains { closing in
      closing.span.begin < stamp
        && (closing.isShutdown ? program.isStore(store, atOrBelow: closing.store) : closing.store == store)
    }
  }

  private func mustBeClosed(_ store: Int, before stamp: Int) -> Bool {
    recorded.closings.contains { closing in
      closing.isShutdown && closing.span.end < stamp && program.isStore(store, atOrBelow: closing.store)
    }
  }

  // MARK: Reads

  private mutating func checkRead(_ read: StateRead) {
    switch read.outcome {
    case .read(let state):
      if state.at >= 0 {
        if state.at > count {
          fail("G3 \(read.via) reads \(state) of \(count) commits")
        } else if model.state(via: read.via, after: state.at)?.isSame(as: state) != true {
          let expected = model.state(via: read.via, after: state.at)
          fail("G3 \(read.via) reads \(state) and not \(expected?.description ?? "nothing")")
        }
      } else if !window(of: read.span).contains(where: {
        model.state(via: read.via, after: $0)?.isSame(as: state) == true
      }) {
        fail("G1 \(read.via) reads \(state), which is none of those after \(window(of: read.span))")
      }
      if !read.via.isDirect, mustBeClosed(read.via.store, before: read.span.begin) {
        fail("G9 \(read.via) is read after its shutdown")
      }
    case .stateUnavailable:
      if !window(of: read.span).contains(where: { model.state(via: read.via, after: $0) == nil }),
        !couldBeClosed(read.via.store, before: read.span.end)
      {
        fail("G9 \(read.via) has no state after \(window(of: read.span))")
      }
    case .terminated:
      if !couldBeClosed(read.via.store, before: read.span.end) { fail("G9 \(read.via) is terminated") }
    default: fail("G9 \(read.via) throws \(read.outcome)")
    }
  }

  /// The possible positions in the order of a request with this span.
  private func window(of span: Span) -> ClosedRange<Int> {
    let first = firstPosition(after: span.begin, seen: span.seen)
    return first...max(first, lastPosition(before: span.end))
  }

  private func firstPosition(after stamp: Int, seen: Int) -> Int {
    max(seen, (spans.lastIndex { $0.map { $0.end < stamp } ?? false } ?? -1) + 1)
  }

  private func lastPosition(before stamp: Int) -> Int {
    spans.firstIndex { $0.map { $0.begin > stamp } ?? false } ?? count
  }

  // MARK: One order (G1)

  private struct Point {
    var span: Span
    /// Twice the number of earlier commits, plus one for a commit.
    var first: Int
    var last: Int
    var name: String
  }

  private mutating func checkOrder() {
    var points: [Point] = []
    for call in recorded.calls {
      guard let range = places[call.action.given] else { continue }
      if range.lowerBound < call.span.seen {
        fail("G1 action \(call.action.given) is commit \(range.lowerBound + 1), and there had been \(call.span.seen)")
      }
      points.append(
        Point(
          span: call.span, first: 2 * range.lowerBound + 1, last: 2 * range.upperBound - 1,
          name: "action \(call.action.given)"))
    }
    for read in recorded.reads {
      guard case .read(let state) = read.outcome, state.at >= 0 else { continue }
      if state.at < read.span.seen {
        fail("G1 \(read.via) reads \(state), and there had been \(read.span.seen) commits")
      }
      // After a store's end, its last state can still be read.
      guard !couldBeClosed(read.via.store, before: read.span.end) else { continue }
      points.append(
        Point(span: read.span, first: 2 * state.at, last: 2 * state.at, name: "state of \(read.via)"))
    }
    for followed in recorded.followed where followed.buffering.keepsFirst && !followed.via.views.contains(.optional) {
      guard let first = followed.elements.first, first.at >= 0 else { continue }
      points.append(Point(span: followed.span, first: 2 * first.at, last: 2 * first.at, name: followed.name))
    }
    let ended = points.sorted { $0.span.end < $1.span.end }
    var latest: Point?
    var next = 0
    for point in points.sorted(by: { $0.span.begin < $1.span.begin }) {
      while next < ended.count, ended[next].span.end < point.span.begin {
        if ended[next].last > latest?.last ?? -1 { latest = ended[next] }
        next += 1
      }
      if let latest, latest.last > point.first {
        fail(
          "G1 \(point.name) at \(point.first / 2) is before \(latest.name) at \(latest.last / 2), asked for before it")
      }
    }
  }

  // MARK: Sequences (G3 to G7)

  private mutating func checkFollowed(_ followed: Followed) {
    if let failure = failure(of: followed) {
      fail(
        "\(failure)\n    \(followed.name) \(followed.via), \(followed.buffering), filter \(followed.filter), "
          + "\(followed.isWhole ? "to its end" : "not to its end"), window \(window(of: followed.span)) of \(count)"
          + "\n    elements \(followed.elements.map(\.description).joined(separator: "\n             "))")
    }
  }

  /// The failure of a sequence; nil if it is correct from some possible position on.
  private func failure(of followed: Followed) -> String? {
    if followed.elements.isEmpty, !followed.isWhole { return nil }
    if mustBeClosed(followed.via.store, before: followed.span.begin) {
      return followed.elements.isEmpty ? nil : "G9 it was subscribed to after the shutdown"
    }
    if followed.isWhole, !couldBeClosed(followed.via.store, before: followed.endStamp) {
      return "G7 it ended without its store"
    }
    if followed.elements.isEmpty, couldBeClosed(followed.via.store, before: followed.span.end) { return nil }
    var failure: String?
    for first in window(of: followed.span) {
      // A first element that is kept shows the position at which the sequence began.
      if followed.buffering.keepsFirst, !followed.via.views.contains(.optional), let state = followed.elements.first,
        state.at >= 0, state.at != first
      {
        continue
      }
      guard let found = self.failure(of: followed, from: first) else { return nil }
      failure = failure ?? found
    }
    return failure ?? "G5 its first element is none of those that it could be"
  }

  /// The failure of a sequence of a key, if the store leaves out commits. Deliveries that are not due are optional.
  private func failure(of followed: Followed, at key: Int, from first: Int) -> String? {
    let deliveries = model.keyDeliveries(via: followed.via, key: key, from: first)
    let latestEnd = latestEnd(of: followed)
    let isExact = followed.buffering == .unbounded && followed.filter == .none
    // All possible numbers of deliveries up to the current element.
    var places: Set<Int> = [0]
    for element in followed.elements {
      var next: Set<Int> = []
      for place in places {
        for (index, delivery) in deliveries.enumerated().dropFirst(place) {
          if delivery.position > latestEnd { break }
          if delivery.state.isSame(as: element) { next.insert(index + 1) }
          if delivery.isDue, isExact { break }
        }
      }
      if next.isEmpty { return "G4 \(element) is not expected, or one before it is missing, from \(first) on" }
      places = next
    }
    guard followed.isWhole, isExact else { return nil }
    let earliestEnd = earliestEnd(of: followed)
    let isComplete = places.contains { place in
      deliveries.dropFirst(place).allSatisfy { !$0.isDue || $0.position > earliestEnd }
    }
    return isComplete ? nil : "G4 the sequence of key \(key) ended too early, from \(first) on"
  }

  private func failure(of followed: Followed, from first: Int) -> String? {
    if let key = followed.via.views.key, program.stores[followed.via.store].emits != .always {
      return failure(of: followed, at: key, from: first)
    }
    let deliveries = model.deliveries(via: followed.via, filter: followed.filter, from: first)
    let elements = followed.elements
    let hidden = followed.via.views.hidesPositions
    // The number of deliveries before the latest possible end of the store.
    let latestEnd = latestEnd(of: followed)
    let possible = deliveries.prefix { $0.position <= latestEnd }.count
    // The index of each element among the deliveries: the earliest, or the latest if elements do not show their
    // positions and older ones may be left out.
    var indices: [Int] = []
    if hidden, !followed.buffering.keepsFirst {
      for element in elements.reversed() {
        var index = (indices.last ?? possible) - 1
        while index >= 0, !deliveries[index].state.isSame(as: element) { index -= 1 }
        guard index >= 0 else { return "G4 \(element) is not expected, from \(first) on" }
        indices.append(index)
      }
      indices.reverse()
    } else {
      for element in elements {
        var index = (indices.last ?? -1) + 1
        while index < deliveries.count, !deliveries[index].state.isSame(as: element) { index += 1 }
        guard index < deliveries.count else { return "G4 \(element) is not expected, from \(first) on" }
        indices.append(index)
      }
    }
    let gap = zip(indices, indices.indices).first { $0 != $1 }
    if let last = indices.last, last >= possible {
      return "G9 \(elements[elements.count - 1]) is after the end at \(latestEnd)"
    }
    switch followed.buffering {
    case .unbounded:
      if let gap { return "G4 \(deliveries[gap.1].state) is missing, from \(first) on" }
    case .oldest(let limit):
      if let gap, gap.1 < limit, !hidden { return "G6 \(deliveries[gap.1].state) is not among the oldest" }
    case .newest(let limit):
      guard !hidden else { break }
      for (index, before) in zip(indices, [-1] + indices) where index != before + 1 && index + limit > possible {
        return "G6 \(deliveries[index - 1].state) is left out where it is one of the newest"
      }
    }
    guard followed.isWhole else { return nil }
    let next = (indices.last ?? -1) + 1
    let isSated = followed.buffering.isOldest(atMost: elements.count)
    if next < deliveries.count, !isSated, deliveries[next].position <= earliestEnd(of: followed) {
      return "G7 the sequence ended before \(deliveries[next].state), from \(first) on"
    }
    guard let stalledAt = followed.stalledAt, !hidden else { return nil }
    let rest = indices.dropFirst(stalledAt)
    let before = stalledAt == 0 ? -1 : indices[stalledAt - 1]
    switch followed.buffering {
    case .unbounded: break
    case .newest(let limit):
      let last = indices.last ?? -1
      if rest.count != min(limit, last - before) || rest.first.map({ $0 + rest.count - 1 != last }) == true {
        return "G6 after the stall it has \(rest.count), and not the newest \(limit)"
      }
    case .oldest(let limit):
      if rest.count > limit { return "G6 after the stall it has \(rest.count), and not the oldest \(limit)" }
    }
    return nil
  }

  /// The number of commits before the store's earliest possible end.
  private func earliestEnd(of followed: Followed) -> Int {
    let begins = recorded.closings.filter { closing in
      closing.isShutdown
        ? program.isStore(followed.via.store, atOrBelow: closing.store) : closing.store == followed.via.store
    }.map(\.span)
    guard let first = begins.min(by: { $0.begin < $1.begin }) else { return count }
    return firstPosition(after: first.begin, seen: first.seen)
  }

  private func latestEnd(of followed: Followed) -> Int {
    let ends = recorded.closings.filter { closing in
      closing.isShutdown && program.isStore(followed.via.store, atOrBelow: closing.store)
    }.map(\.span.end)
    return ends.min().map(lastPosition) ?? count
  }

  // MARK: Observers

  private mutating func checkObservers() {
    guard !recorded.observed.isEmpty else { return }
    var allCalls: [Int: [ObserverCall]] = [:]
    for call in recorded.observerCalls { allCalls[call.subscription, default: []].append(call) }
    for observed in recorded.observed {
      let calls = (allCalls[observed.number] ?? []).sorted { $0.begin < $1.begin }
      let observing = observed.observing
      let isDead = calls.contains { $0.isDead }
      var followed = Followed(
        name: "observer #\(observing.key), subscription \(observed.number)", via: observed.via,
        buffering: observing.buffering, filter: observing.filter, span: observed.span)
      followed.elements = calls.map(\.state)
      // A later subscription of the same observer may have replaced it.
      let isLast = recorded.observed.allSatisfy { other in
        other.observing.key != observing.key || other.number == observed.number || other.span.end < observed.span.begin
      }
      // A subscription that waited for an earlier call may have come too late for its store: any time may pass between
      // the recorded end of that call and its return.
      let mayHaveWaited = recorded.observed.contains { other in
        other.observing.key == observing.key && other.number != observed.number && allCalls[other.number] != nil
      }
      followed.isWhole = observed.cuts.isEmpty && !isDead && isLast && !(calls.isEmpty && mayHaveWaited)
      followed.endStamp = .max
      checkFollowed(followed)
      if calls.dropLast().contains(where: { $0.isDead }) { fail("G8 \(followed.name) is called though it is dead") }
      for cut in observed.cuts where features.contains(.observerCancels) && cut.begin > observed.span.end {
        // A call already under way may still be recorded.
        if let (_, late) = zip(calls, calls.dropFirst()).first(where: { before, _ in before.end > cut.end }) {
          fail("G8 \(followed.name) is called with \(late.state) after it was cancelled")
        }
      }
    }
  }

  // MARK: Interceptors (G8)

  private mutating func checkInterceptors() {
    guard !recorded.interceptions.isEmpty else { return }
    let starts = recorded.starts
    let offset = count - starts.count
    // An interceptor set after the root's end has no effect, although its own tasks may still dispatch.
    let set = recorded.interceptions.filter { !couldBeClosed(0, before: $0.span.end) }
    let earliest = recorded.interceptions.map { window(of: $0.span).lowerBound }.min() ?? 0
    let latest = program.interceptor == nil ? set.map { window(of: $0.span).upperBound }.min() ?? count : 0
    guard offset >= earliest, offset <= latest else {
      return fail("G8 the interceptor is asked \(starts.count) times of \(count), from \(earliest) to \(latest) on")
    }
    for (place, start) in starts.enumerated() {
      let action = recorded.commits[offset + place]
      if action.given != start.given || action.copy != start.copy {
        return fail("G8 the interceptor is asked about \(start.given) where \(action.given) is committed")
      }
    }
    var generations: Set<Int> = []
    var last = -1
    for (place, start) in starts.enumerated() where start.generation != last {
      last = start.generation
      if !generations.insert(last).inserted { fail("G8 interceptor \(last) is asked again after another one") }
      guard let interception = recorded.interceptions.first(where: { $0.generation == last }) else { continue }
      if offset + place < window(of: interception.span).lowerBound {
        fail("G8 interceptor \(last) is asked about commit \(offset + place + 1), before it was set")
      }
    }
    for interception in set {
      let latest = window(of: interception.span).upperBound
      // Once it is set, no older interceptor may be asked.
      for (place, start) in starts.enumerated() where offset + place >= latest {
        if let other = recorded.interceptions.first(where: { $0.generation == start.generation }),
          other.span.end < interception.span.begin
        {
          return fail("G8 interceptor \(start.generation) is asked after \(interception.generation) was set")
        }
      }
    }
    checkWorks()
  }

  private mutating func checkWorks() {
    var works: [Int: Int] = [:]
    for work in recorded.works { works[work.given << 16 | Int(work.copy), default: 0] += 1 }
    for start in recorded.starts {
      guard let interception = recorded.interceptions.first(where: { $0.generation == start.generation }),
        let action = recorded.commits.first(where: { $0.given == start.given && $0.copy == start.copy })
      else { continue }
      let isMeant = action.rule % interception.spec.divisor == 0
      let count = works[start.given << 16 | Int(start.copy)] ?? 0
      // Actions of an observer may reach a finishing store after its effects have ended.
      let isCancelled =
        isCancelled(action.store) || action.given >= 1_000_000 && couldBeClosed(action.store, before: .max)
      let isRight = count == (isMeant ? 1 : 0) || isMeant && count == 0 && isCancelled
      if !isRight { fail("G8 interceptor \(start.generation) ran \(count) times for \(start.given)") }
    }
  }

  /// Whether the end of a store cancelled its effects. Effects that have not begun by then never begin.
  private func isCancelled(_ store: Int) -> Bool {
    func ends(_ closing: Closing) -> Bool {
      closing.isShutdown ? program.isStore(store, atOrBelow: closing.store) : closing.store == store
    }
    let finished = recorded.closings.filter { ends($0) && $0.isFinishing }.map(\.span.end).min() ?? .max
    return recorded.closings.contains { ends($0) && !$0.isFinishing && $0.span.begin < finished }
  }

  /// No task of a store runs after its shutdown has returned. A shutdown by an interceptor does not wait for tasks.
  private mutating func checkEnds() {
    guard features.contains(.interceptorEnds) else { return }
    for closing in recorded.closings where closing.isShutdown && !closing.isByInterceptor {
      for work in recorded.works
      where work.end > closing.span.end && program.isStore(work.store, atOrBelow: closing.store) {
        fail("G8 the interceptor of \(work.given) ran after the shutdown of store \(closing.store)")
      }
      for observed in recorded.observed where program.isStore(observed.via.store, atOrBelow: closing.store) {
        for call in recorded.observerCalls
        where call.subscription == observed.number && call.end > closing.span.end {
          fail("G8 observer #\(observed.observing.key) ran after the shutdown of store \(closing.store)")
        }
      }
    }
  }

  // MARK: Histories

  private mutating func checkHistory(_ read: HistoryRead) {
    guard let last = read.entries.last else {
      if model.positions(through: read.store).contains(where: { $0 <= read.span.seen - 1 }) {
        fail("history of \(read.store) is empty after \(read.span.seen) commits")
      }
      return
    }
    let limit = program.stores[read.store].history ?? 1
    let through = model.positions(through: read.store)
    let expected = through.prefix { $0 <= last.position }.suffix(limit)
    if read.entries.map(\.position) != Array(expected) {
      fail("history of \(read.store) has \(read.entries.map(\.position)) and not \(expected)")
      return
    }
    for entry in read.entries {
      let action = recorded.commits[entry.position - 1]
      let (before, after) = (
        model.ledger(of: read.store, after: entry.position - 1), model.ledger(of: read.store, after: entry.position)
      )
      if !entry.action.isSame(as: action) || entry.before != before || entry.after != after
        || entry.isRootGiven != (action.store == 0) || entry.steps != (program.stores[read.store].isSplit ? 2 : 1)
      {
        fail("history of \(read.store) is wrong about commit \(entry.position)")
      }
    }
    // The entry of the last commit may still be on its way.
    if let missing = through.last(where: { $0 <= read.span.seen - 1 }), last.position < missing {
      fail("history of \(read.store) ends with \(last.position) after \(read.span.seen) commits")
    }
  }
}

extension Buffering {
  /// Whether the first element read is the sequence's first.
  var keepsFirst: Bool {
    switch self {
    case .unbounded, .oldest: true
    case .newest: false
    }
  }

  /// Whether it buffers the oldest elements, and may have been full at some time.
  func isOldest(atMost count: Int) -> Bool {
    if case .oldest(let limit) = self { return count >= limit }
    return false
  }
}
