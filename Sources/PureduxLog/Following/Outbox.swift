/// What has been accepted here and has not come back from the log: a pure state machine.
///
/// Actions are numbered, and go to the log in entries, several of which may be on their way. Whatever becomes of those,
/// an action stays until it has been applied; where one is missing everything from there on goes once more.
struct Outbox {
  struct Limits {
    /// How many actions go into one entry, and how many bytes.
    var actions = 256
    var bytes = 1 << 20
    /// How many entries are on their way at a time.
    var entries = 4
    /// How many bytes wait before `dispatch` is refused.
    var pendingBytes = 16 << 20
  }

  private struct Item {
    /// Counts all actions that are taken; an action's number in the log is another one.
    let id: UInt64
    var bytes: [UInt8]
    /// The rules under which the action was admitted, and is written.
    let rules: UInt32
    /// When it was accepted.
    let time: Duration
    /// Whether it may be in the log: it was on its way, and was not refused.
    var mayBeThere = false
  }

  /// An entry that is to be appended: the id that its outcome is told with, and its actions.
  struct Entry {
    let id: Int
    let first: UInt64
    let rules: UInt32
    let actions: ArraySlice<[UInt8]>
  }

  /// About how many bytes an action takes beside its own, here and in the tree.
  static let overhead = 100

  let limits: Limits
  /// The items that have been given to the log at some time, in the order of their numbers. The items before `head`
  /// have been applied.
  private var given: [Item] = []
  private var head = 0
  /// The later items, which have not been given to the log, and so have no numbers yet.
  private var waiting = WithdrawableQueue<Item>()
  private var firstNumber: UInt64 = 1
  /// How many of the given items, from `head` on, are on their way.
  private var sentCount = 0
  /// The entries that are on their way, since the last time that all went once more, and the numbers of their actions.
  private var underWay: [Int: Range<UInt64>] = [:]
  /// The entries from before that whose outcome has not been told.
  private var outstanding: [Int: Range<UInt64>] = [:]
  private static let outstandingLimit = 64
  /// How many actions go into one entry: fewer where the log has refused one of more.
  private var actionLimit: Int
  private var nextID = 0
  private var lastItem: UInt64 = 0
  private var lastTime = Duration.zero
  /// The last item that `overdue(before:)` has returned.
  private var lastOverdue: UInt64 = 0
  private(set) var bytes = 0
  /// Why the log takes nothing, if it does not: one entry is tried at a time then.
  private(set) var trouble: LogError?
  private var isTrying = false
  /// Whether the log has refused the first action, by itself, when it went there last.
  private(set) var isFirstRefused = false
  /// Whether all has gone once more since something came back.
  private var isRepeating = false
  /// How often all has gone once more because of time, since something came back: each time it is given more of that.
  private var repeatCount = 0
  /// When something was last given to the log, or came back.
  private var lastProgress = Duration.zero

  init(limits: Limits) {
    self.limits = limits
    actionLimit = limits.actions
  }

  private var givenCount: Int { given.count - head }
  var count: Int { givenCount + waiting.count }
  var isEmpty: Bool { count == 0 }
  var isFull: Bool { bytes >= limits.pendingBytes }

  /// Takes an action behind those that are there. Returns its id.
  @discardableResult mutating func append(_ action: [UInt8], rules: UInt32 = 0, at time: Duration) -> UInt64 {
    if isEmpty { lastProgress = time }
    lastItem += 1
    // A clock that is set by hand may go back.
    lastTime = max(lastTime, time)
    waiting.append(Item(id: lastItem, bytes: action, rules: rules, time: lastTime), id: lastItem)
    bytes += action.count + Self.overhead
    return lastItem
  }

  /// Removes an action that has never been given to the log; false if the log has been given it.
  mutating func withdraw(_ id: UInt64) -> Bool {
    guard let item = waiting.remove(id) else { return false }
    bytes -= item.bytes.count + Self.overhead
    return true
  }

  /// The id of the first action.
  var first: UInt64? { givenCount > 0 ? given[head].id : waiting.firstID }

  /// The next entry to be given to the log, if one may be now.
  mutating func next(at time: Duration) -> Entry? {
    if trouble != nil, !isTrying { return nil }
    guard underWay.count < (trouble == nil ? limits.entries : 1), sentCount < count else { return nil }
    let start = head + sentCount
    var (end, size) = (start, 0)
    var rules: UInt32?
    while end - start < actionLimit, let item = end < given.count ? given[end] : waiting.first {
      // All actions of an entry are reduced under the same rules.
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

  /// The outcome of an entry, by the log. That of an entry from before all went once more says nothing.
  mutating func ended(_ id: Int, _ error: LogError?, at time: Duration) {
    guard let numbers = underWay.removeValue(forKey: id) else {
      guard let numbers = outstanding.removeValue(forKey: id) else { return }
      if case .refused = error { return }
      return note(numbers)
    }
    if let error {
      if case .refused = error {
        // It may be too large for what the log takes by now.
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

  /// The first action has been applied. Returns its id.
  @discardableResult mutating func applied(at time: Duration) -> UInt64? {
    guard let first else { return nil }
    removeFirst()
    lastProgress = time
    // An action that comes back has arrived, whatever the log has said of it.
    trouble = nil
    isRepeating = false
    repeatCount = 0
    // An outcome that nobody is told any more holds up nothing.
    if isEmpty { (underWay, outstanding) = ([:], [:]) }
    return first
  }

  private mutating func removeFirst() {
    // An action that the log delivers without having been given it is a clone's.
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

  /// The number of the first action that has not been applied.
  var firstPending: UInt64 { firstNumber }

  /// Whether nothing that waits has been given to the log.
  var isUntouched: Bool { givenCount == 0 }

  /// Whether actions, from a number on, are those that were given to the log, as far as these wait still.
  func hasGiven(_ actions: [ArraySlice<UInt8>], from first: UInt64) -> Bool {
    for (offset, action) in actions.enumerated() {
      let number = first + UInt64(offset)
      if number < firstNumber { continue }
      let place = number - firstNumber
      guard place < UInt64(givenCount), given[head + Int(place)].bytes[...] == action else { return false }
    }
    return true
  }

  /// All goes once more: something is missing. Entries that are on their way may come all the same; repeats do no harm.
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

  /// Actions with these numbers may be in the log.
  private mutating func note(_ numbers: Range<UInt64>) {
    for number in numbers where number >= firstNumber && number - firstNumber < UInt64(givenCount) {
      given[head + Int(number - firstNumber)].mayBeThere = true
    }
  }

  /// Drops the first action if the log has refused it and it is not there from an earlier attempt; the others go once
  /// more, under the numbers of another writer, as theirs are early for ever. Returns its id.
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

  /// An action that came back was early: something is missing before it. The entries that were on their way with it are
  /// early, too, and say nothing new.
  mutating func foundGap() {
    if !isRepeating { rewind() }
    isRepeating = true
  }

  /// All goes once more, under other numbers, from one on: of another writer.
  mutating func renumber() {
    rewind()
    noteOutstanding()
    isRepeating = false
    repeatCount = 0
    firstNumber = 1
  }

  /// Time has gone on: whether something is to be tried again.
  ///
  /// - Parameter patience: How long nothing may come back before all goes once more. Twice that before it does again,
  ///   and so on.
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

  /// The id of the last action that was accepted before a time; nil if there is no further one since the last call.
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
