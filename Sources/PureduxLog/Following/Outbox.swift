/// The accepted actions that the log has not delivered: a pure state machine.
///
/// Actions are numbered, and go to the log in entries, several of them in flight. An action stays until it has been
/// applied, whatever its entry's outcome. If one is missing, all actions from there on are sent again.
struct Outbox {
  struct Limits {
    var actions = 256
    var bytes = 1 << 20
    var entries = 4
    var pendingBytes = 16 << 20
  }

  private struct Item {
    let id: UInt64
    var bytes: [UInt8]
    let rules: UInt32
    let time: Duration
    var mayBeThere = false
  }

  struct Entry {
    let id: Int
    let first: UInt64
    let rules: UInt32
    let actions: ArraySlice<[UInt8]>
  }

  static let overhead = 100

  let limits: Limits
  /// Given to the log at least once, by number. Those before `head` have been applied.
  private var given: [Item] = []
  private var head = 0
  private var waiting = WithdrawableQueue<Item>()
  private var firstNumber: UInt64 = 1
  /// The given items in flight, from `head` on.
  private var sentCount = 0
  private var underWay: [Int: Range<UInt64>] = [:]
  private var outstanding: [Int: Range<UInt64>] = [:]
  private static let outstandingLimit = 64
  private var actionLimit: Int
  private var nextID = 0
  private var lastItem: UInt64 = 0
  private var lastTime = Duration.zero
  private var lastOverdue: UInt64 = 0
  private(set) var bytes = 0
  private(set) var trouble: LogError?
  private var isTrying = false
  /// Whether the log last refused the first action, in an entry of its own.
  private(set) var isFirstRefused = false
  /// Whether all actions were sent again since the log last delivered one.
  private var isRepeating = false
  private var repeatCount = 0
  private var lastProgress = Duration.zero

  init(limits: Limits) {
    self.limits = limits
    actionLimit = limits.actions
  }

  private var givenCount: Int { given.count - head }
  var count: Int { givenCount + waiting.count }
  var isEmpty: Bool { count == 0 }
  var isFull: Bool { bytes >= limits.pendingBytes }

  @discardableResult mutating func append(_ action: [UInt8], rules: UInt32 = 0, at time: Duration) -> UInt64 {
    if isEmpty { lastProgress = time }
    lastItem += 1
    lastTime = max(lastTime, time)
    waiting.append(Item(id: lastItem, bytes: action, rules: rules, time: lastTime), id: lastItem)
    bytes += action.count + Self.overhead
    return lastItem
  }

  mutating func withdraw(_ id: UInt64) -> Bool {
    guard let item = waiting.remove(id) else { return false }
    bytes -= item.bytes.count + Self.overhead
    return true
  }

  var first: UInt64? { givenCount > 0 ? given[head].id : waiting.firstID }

  mutating func next(at time: Duration) -> Entry? {
    if trouble != nil, !isTrying { return nil }
    guard underWay.count < (trouble == nil ? limits.entries : 1), sentCount < count else { return nil }
    let start = head + sentCount
    var (end, size) = (start, 0)
    var rules: UInt32?
    while end - start < actionLimit, let item = end < given.count ? given[end] : waiting.first {
      if let rules, item.rules != rules { break }
      size += item.bytes.count + 4
      if size > limits.bytes, end > start { break }
      rules = item.rules
      if end == given.count, let item = waiting.popFirst() { given.append(item) }
      end += 1
    }
    let entry = Entry(
      id: nextID, first: firstNumber + UInt64(sentCount), rules: given[start].rules,
      actions: given[start..<end].map(\.bytes)[...])
    nextID += 1
    if sentCount == 0 { isFirstRefused = false }
    underWay[entry.id] = entry.first..<entry.first + UInt64(end - start)
    sentCount += end - start
    isTrying = false
    lastProgress = time
    return entry
  }

  /// An outcome from before the last rewind only tells whether the actions may be in the log.
  mutating func ended(_ id: Int, _ error: LogError?, at time: Duration) {
    guard let numbers = underWay.removeValue(forKey: id) else {
      guard let numbers = outstanding.removeValue(forKey: id) else { return }
      if case .refused = error { return }
      return note(numbers)
    }
    if let error {
      if case .refused = error {
        actionLimit = max(1, min(actionLimit, numbers.count / 2))
        if numbers.count == 1, numbers.lowerBound == firstNumber { isFirstRefused = true }
      } else {
        note(numbers)
      }
      trouble = error
      rewind()
    } else {
      note(numbers)
      trouble = nil
      lastProgress = time
      actionLimit = min(limits.actions, actionLimit + 1)
    }
  }

  @discardableResult mutating func applied(at time: Duration) -> UInt64? {
    guard let first else { return nil }
    removeFirst()
    lastProgress = time
    // A delivered action has arrived, whatever the log has answered.
    trouble = nil
    isRepeating = false
    repeatCount = 0
    // The log may never report some outcomes, which must not hold up later entries.
    if isEmpty { (underWay, outstanding) = ([:], [:]) }
    return first
  }

  private mutating func removeFirst() {
    // A delivered action that was never sent is a clone's.
    if givenCount == 0, let item = waiting.popFirst() { given.append(item) }
    bytes -= given[head].bytes.count + Self.overhead
    given[head].bytes = []
    head += 1
    firstNumber += 1
    sentCount = max(0, sentCount - 1)
    isFirstRefused = false
    if head == given.count {
      given.removeAll(keepingCapacity: given.capacity <= 16)
      head = 0
    } else if head >= 64, head * 2 >= given.count {
      given.removeFirst(head)
      head = 0
    }
  }

  var firstPending: UInt64 { firstNumber }

  var isUntouched: Bool { givenCount == 0 }

  func hasGiven(_ actions: [ArraySlice<UInt8>], from first: UInt64) -> Bool {
    for (offset, action) in actions.enumerated() {
      let number = first + UInt64(offset)
      if number < firstNumber { continue }
      let place = number - firstNumber
      guard place < UInt64(givenCount), given[head + Int(place)].bytes[...] == action else { return false }
    }
    return true
  }

  /// Sends all actions again. Entries in flight may arrive, too: repetitions are harmless.
  mutating func rewind() {
    sentCount = 0
    outstanding.merge(underWay) { $1 }
    underWay = [:]
    if outstanding.count > Self.outstandingLimit { noteOutstanding() }
  }

  private mutating func noteOutstanding() {
    for numbers in outstanding.values { note(numbers) }
    outstanding = [:]
  }

  private mutating func note(_ numbers: Range<UInt64>) {
    for number in numbers where number >= firstNumber && number - firstNumber < UInt64(givenCount) {
      given[head + Int(number - firstNumber)].mayBeThere = true
    }
  }

  /// Drops the first action, and returns its id, if the log has refused it and cannot have it from an earlier attempt.
  /// The rest needs another writer's numbers, or would be early forever.
  mutating func dropRefused(at time: Duration) -> UInt64? {
    guard isFirstRefused, let first, givenCount > 0, !given[head].mayBeThere,
      ![underWay, outstanding].contains(where: { $0.values.contains { $0.contains(firstNumber) } })
    else { return nil }
    removeFirst()
    trouble = nil
    lastProgress = time
    renumber()
    for place in given.indices { given[place].mayBeThere = false }
    return first
  }

  /// A delivered action was early: one before it is missing. Further early ones cause no second rewind.
  mutating func foundGap() {
    if !isRepeating { rewind() }
    isRepeating = true
  }

  mutating func renumber() {
    rewind()
    noteOutstanding()
    isRepeating = false
    repeatCount = 0
    firstNumber = 1
  }

  mutating func retry(at time: Duration, patience: Duration) -> Bool {
    guard !isEmpty else { return false }
    let isOverdue = (sentCount > 0 || !underWay.isEmpty) && time - lastProgress >= patience * (1 << min(repeatCount, 5))
    if isOverdue {
      rewind()
      repeatCount += 1
      lastProgress = time
    }
    if trouble != nil { isTrying = true }
    return isOverdue || isTrying
  }

  mutating func overdue(before time: Duration) -> UInt64? {
    let before = lastOverdue
    for item in given[head...] where item.id > before {
      guard item.time < time else { return lastOverdue > before ? lastOverdue : nil }
      lastOverdue = item.id
    }
    waiting.update(after: lastOverdue) { id, item in
      guard item.time < time else { return false }
      lastOverdue = id
      return true
    }
    return lastOverdue > before ? lastOverdue : nil
  }
}
