/// The accepted actions that the log has not delivered: a pure state machine.
///
/// Actions are numbered, and go to the log in entries, of which several may be on their way. An action stays until it
/// has been applied, whatever the outcome of its entry. If one is missing, all actions from there on are sent again.
struct Outbox {
  struct Limits {
    /// The maximum size of an entry.
    var actions = 256
    var bytes = 1 << 20
    /// The maximum number of entries on their way.
    var entries = 4
    /// The number of waiting bytes at which `dispatch` is refused.
    var pendingBytes = 16 << 20
  }

  private struct Item {
    /// Counts all accepted actions. The action's number in the log is another one.
    let id: UInt64
    var bytes: [UInt8]
    let rules: UInt32
    let time: Duration
    /// Whether the log may have it: it was sent, and not refused.
    var mayBeThere = false
  }

  /// An entry to append. Its outcome is reported by its id.
  struct Entry {
    let id: Int
    let first: UInt64
    let rules: UInt32
    let actions: ArraySlice<[UInt8]>
  }

  /// The approximate number of bytes that an action takes besides its own, here and in the tree.
  static let overhead = 100

  let limits: Limits
  /// The items that have been given to the log at least once, in the order of their numbers. Those before `head` have
  /// been applied.
  private var given: [Item] = []
  private var head = 0
  /// The later items, which have no numbers yet.
  private var waiting = WithdrawableQueue<Item>()
  private var firstNumber: UInt64 = 1
  /// The number of given items, from `head` on, that are on their way.
  private var sentCount = 0
  /// The action numbers of the entries that were sent since the last rewind and have no outcome yet.
  private var underWay: [Int: Range<UInt64>] = [:]
  /// The action numbers of earlier entries without an outcome.
  private var outstanding: [Int: Range<UInt64>] = [:]
  private static let outstandingLimit = 64
  /// The maximum number of actions in an entry. It is lower after the log has refused a larger entry.
  private var actionLimit: Int
  private var nextID = 0
  private var lastItem: UInt64 = 0
  private var lastTime = Duration.zero
  private var lastOverdue: UInt64 = 0
  private(set) var bytes = 0
  /// Why the log takes no entries, if it takes none. Until it does, one entry is tried at a time.
  private(set) var trouble: LogError?
  private var isTrying = false
  /// Whether the log has refused the first action, in an entry of its own, at its last attempt.
  private(set) var isFirstRefused = false
  /// Whether all actions were sent again since the log last delivered one.
  private var isRepeating = false
  /// The number of such repetitions for lack of progress.
  private var repeatCount = 0
  /// The last time at which an entry was sent or acknowledged, or an action was applied.
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
    // A manual clock may go back.
    lastTime = max(lastTime, time)
    waiting.append(Item(id: lastItem, bytes: action, rules: rules, time: lastTime), id: lastItem)
    bytes += action.count + Self.overhead
    return lastItem
  }

  /// Removes an action; false if the log has been given it.
  mutating func withdraw(_ id: UInt64) -> Bool {
    guard let item = waiting.remove(id) else { return false }
    bytes -= item.bytes.count + Self.overhead
    return true
  }

  var first: UInt64? { givenCount > 0 ? given[head].id : waiting.firstID }

  /// The next entry for the log, if it may be sent now.
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

  /// Notes the outcome of an entry. An entry from before the last rewind only tells whether its actions may be in the
  /// log.
  mutating func ended(_ id: Int, _ error: LogError?, at time: Duration) {
    guard let numbers = underWay.removeValue(forKey: id) else {
      guard let numbers = outstanding.removeValue(forKey: id) else { return }
      if case .refused = error { return }
      return note(numbers)
    }
    if let error {
      if case .refused = error {
        // The entry may be too large for the log's present limit.
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

  /// Removes the first action, which has been applied, and returns its id.
  @discardableResult mutating func applied(at time: Duration) -> UInt64? {
    guard let first else { return nil }
    removeFirst()
    lastProgress = time
    // A delivered action has arrived, whatever the log has answered.
    trouble = nil
    isRepeating = false
    repeatCount = 0
    // The log may never report some outcomes: they must not hold up later entries.
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

  /// Whether no waiting action has been given to the log.
  var isUntouched: Bool { givenCount == 0 }

  /// Whether the actions, numbered from `first` on, are those given to the log. Actions already applied are not
  /// compared.
  func hasGiven(_ actions: [ArraySlice<UInt8>], from first: UInt64) -> Bool {
    for (offset, action) in actions.enumerated() {
      let number = first + UInt64(offset)
      if number < firstNumber { continue }
      let place = number - firstNumber
      guard place < UInt64(givenCount), given[head + Int(place)].bytes[...] == action else { return false }
    }
    return true
  }

  /// Sends all actions again. Entries still on their way may arrive, too: repetitions are harmless.
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
  /// The remaining actions need another writer's numbers: otherwise they would be early forever.
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

  /// Notes that a delivered action was early: one before it is missing. Further early actions cause no second rewind.
  mutating func foundGap() {
    if !isRepeating { rewind() }
    isRepeating = true
  }

  /// Sends all actions again, as those of another writer, numbered from one.
  mutating func renumber() {
    rewind()
    noteOutstanding()
    isRepeating = false
    repeatCount = 0
    firstNumber = 1
  }

  /// Returns whether entries are to be sent again.
  ///
  /// - Parameter patience: As `LogOptions.patience`.
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

  /// The id of the last action that was accepted before a time; nil if there is no new one since the last call.
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
