import Puredux
import PureduxDirectory
public import PureduxLog

/// Checks that an engine fulfils the contract of `LogDirectory`: lists of keys and (optional) summaries, removal, the
/// end of a removed tree's stores, and `close`.
///
/// - Parameters:
///   - directory: An empty directory. The check closes it.
///   - limit: The time after which a part of the contract counts as violated.
///   - clock: Measures `limit`.
/// - Throws: `LogViolation`, also if the directory throws; `CancellationError`.
public func checkLogDirectory(
  _ directory: any LogDirectory, within limit: Duration = .seconds(60),
  clock: any Clock<Duration> = ContinuousClock()
) async throws {
  let parts: [(name: String, check: @Sendable () async throws -> Void)] = [
    ("keys", { try await checkKeys(directory) }),
    ("equal keys", { try await checkEqualKeys(directory) }),
    ("summaries", { try await checkSummaries(directory) }),
    ("removal", { try await checkRemoval(directory) }),
    ("removed stores", { try await checkRemovedStores(directory) }),
    ("removed beside appends", { try await checkRemovalBesideAppends(directory) }),
    ("removal before the first entry", { try await checkEarlyRemoval(directory) }),
    ("end", { try await checkEnd(directory) }),
  ]
  for part in parts { try await run(part.check, part.name, within: limit, by: clock) }
}

private func all<Element>(_ elements: AsyncThrowingStream<Element, any Error>) async throws -> [Element] {
  var all: [Element] = []
  for try await element in elements { all.append(element) }
  return all
}

private func checkKeys(_ logs: any LogDirectory) async throws {
  let found = try await all(logs.keys(prefix: ""))
  guard found.isEmpty else { throw LogViolation("keys", "an empty directory lists \(found)") }
  let keys = ["boards/1", "boards/2", "board", "", "Größe", "a=2fb", "a/b", "a.b", "=", "🏳️‍🌈"]
  for key in keys {
    _ = try await logs[key].append([1])
    _ = try await logs[key + " unused"].head()
  }
  let listed = try await all(logs.keys(prefix: ""))
  guard listed.count == keys.count, Set(listed) == Set(keys) else {
    throw LogViolation("keys", "of \(keys) there are \(listed)")
  }
  for (prefix, count) in [("boards/", 2), ("board", 3), ("a", 3), ("boards/1", 1), ("none", 0), ("Gr", 1)] {
    let some = try await all(logs.keys(prefix: prefix))
    guard some.count == count, some.allSatisfy({ $0.hasPrefix(prefix) }) else {
      throw LogViolation("keys", "\(some) are listed for the prefix \(prefix)")
    }
  }
  for key in keys { try await logs.remove(key) }
  let left = try await all(logs.keys(prefix: ""))
  guard left.isEmpty else { throw LogViolation("keys", "after the removal of all keys it lists \(left)") }
}

private func checkEqualKeys(_ logs: any LogDirectory) async throws {
  let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
  let position = try await logs[decomposed].append([1])
  guard try await logs[composed].head() == position else {
    throw LogViolation("equal keys", "the same text in another spelling is another key")
  }
  guard try await all(logs.keys(prefix: decomposed)) == [composed] else {
    throw LogViolation("equal keys", "a key is not found by another spelling")
  }
  guard try await all(logs.keys(prefix: "cafe")).isEmpty else {
    throw LogViolation("equal keys", "a key begins with a text that its own, composed, does not begin with")
  }
  try await logs.remove(composed)
  guard try await logs[decomposed].head() == 0 else {
    throw LogViolation("equal keys", "a key is not removed by another spelling")
  }
}

private func checkSummaries(_ logs: any LogDirectory) async throws {
  guard let none = logs["lists/none"].summaries else {
    return try await expect(
      "summaries", "a list of summaries, which are not supported", { _ = try await all(logs.summaries(prefix: "")) }
    ) {
      if case .refused = $0 { true } else { false }
    }
  }
  guard try await none.kept() == nil, try await all(logs.summaries(prefix: "")).isEmpty else {
    throw LogViolation("summaries", "there is a summary before one was saved")
  }
  let keys = ["lists/1", "lists/2", "list", "lists/Größe", "lists/a=2fb", "lists/.summary"]
  var positions: [UInt64] = []
  for (number, key) in keys.enumerated() {
    positions = try await logs[key].append([[1], [2], [3]])
    guard try await logs[key].summaries?.save([UInt8(number)], at: positions[1]) == true else {
      throw LogViolation("summaries", "the first summary of a key is reported as not stored")
    }
  }
  _ = try await logs["lists/without"].append([1])
  let listed = try await all(logs.summaries(prefix: ""))
  guard listed.count == keys.count, Set(listed.map(\.key)) == Set(keys),
    listed.allSatisfy({ summary in keys.firstIndex(of: summary.key).map { [UInt8($0)] } == summary.bytes })
  else { throw LogViolation("summaries", "of \(keys) there are \(listed)") }
  for (prefix, count) in [("lists/", 5), ("list", 6), ("lists/1", 1), ("none", 0)] {
    let some = try await all(logs.summaries(prefix: prefix))
    guard some.count == count, some.allSatisfy({ $0.key.hasPrefix(prefix) }) else {
      throw LogViolation("summaries", "\(some) are listed for the prefix \(prefix)")
    }
  }
  let key = keys[keys.count - 1]
  guard let summaries = logs[key].summaries else { throw LogViolation("summaries", "there is no place for one") }
  guard try await !summaries.save([9], at: positions[0]), try await summaries.kept()?.position == positions[1] else {
    throw LogViolation("summaries", "an older summary has replaced a newer one")
  }
  for (position, bytes) in [(positions[1], [7]), (positions[2], [])] as [(UInt64, [UInt8])] {
    guard try await summaries.save(bytes, at: position),
      try await summaries.kept() == LogSummary(key: key, position: position, bytes: bytes)
    else { throw LogViolation("summaries", "a summary of the same or a later position has not replaced another") }
  }
  // A position past the head, as after a loss of entries.
  guard try await summaries.save([8], at: positions[2] + 1000), try await summaries.save([6], at: positions[1]),
    try await summaries.kept()?.bytes == [6]
  else { throw LogViolation("summaries", "a summary past the head is not replaced by another") }
  for key in keys + ["lists/without"] { try await logs.remove(key) }
  guard try await all(logs.summaries(prefix: "")).isEmpty, try await logs[key].summaries?.kept() == nil else {
    throw LogViolation("summaries", "summaries of removed trees are left")
  }
}

private func checkRemoval(_ logs: any LogDirectory) async throws {
  try await logs.remove("removed")
  for round in 0..<3 {
    let log = logs["removed"]
    guard try await log.head() == 0, try await log.snapshots?.newest() == nil else {
      throw LogViolation("removal", "a new tree is not empty")
    }
    let positions = try await log.append([[UInt8(round)], [2]])
    try await log.snapshots?.save(LogSnapshot(position: positions[0], bytes: [3]))
    let read = try await logs["removed"].read(after: 0, through: positions[1])
    guard read.map(\.bytes) == [[UInt8(round)], [2]] else {
      throw LogViolation("removal", "a new tree has \(read)")
    }
    try await logs.remove("removed")
    try await logs.remove("removed")
    for _ in 0..<2 {
      try await expectRemoved("head") { _ = try await log.head() }
      try await expectRemoved("append") { _ = try await log.append([9]) }
      try await expectRemoved("records") { _ = try await log.read(after: 0, through: .max) }
      if let snapshots = log.snapshots {
        try await expectRemoved("newest") { _ = try await snapshots.newest() }
        try await expectRemoved("save") { try await snapshots.save(LogSnapshot(position: 1, bytes: [])) }
      }
      if let summaries = log.summaries {
        try await expectRemoved("kept") { _ = try await summaries.kept() }
        try await expectRemoved("save of a summary") { _ = try await summaries.save([], at: 1) }
      }
      try await expectRemoved("truncate") { try await log.truncate(through: positions[0]) }
    }
  }
  guard try await all(logs.keys(prefix: "")).isEmpty else { throw LogViolation("removal", "a key is left") }
}

private func expectRemoved(
  _ call: String, part: String = "removal", _ body: () async throws -> Void
) async throws {
  try await expect(part, "\(call) of a removed tree", body) { if case .removed = $0 { true } else { false } }
}

private func expect(
  _ part: String, _ call: String, _ body: () async throws -> Void, throws isMeant: (LogError) -> Bool
) async throws {
  do {
    try await body()
  } catch let error as LogError where isMeant(error) {
    return
  } catch {
    throw LogViolation(part, "\(call) throws \(error)")
  }
  throw LogViolation(part, "\(call) throws nothing")
}

private func checkRemovedStores(_ logs: any LogDirectory) async throws {
  var options = LogOptions()
  options.reporting = { _ in }
  let stores = StoreDirectory<String, [String], String> { [options] key in
    try await RootStore(
      following: logs[key], initialState: [], options: FollowingOptions(log: options, fingerprint: .unchecked)
    ) {
      $0.append($1)
    }
  }
  for round in 0..<2 {
    let handle = try await stores.open("stores")
    let beside = try await RootStore<[String], String>(
      following: logs["stores"], initialState: [], options: FollowingOptions(log: options, fingerprint: .unchecked)
    ) { $0.append($1) }
    try await handle.store.send("\(round)")
    for await list in beside.states() where list == ["\(round)"] { break }
    try await logs.remove("stores")
    for store in [handle.store, beside] {
      for await phase in store.logPhases() { if case .stopped(.removed) = phase { break } }
      guard case .stopped(.removed)? = await store.statistics.log?.phase else {
        throw LogViolation("removed stores", "a store of a removed tree has not stopped with `.removed`")
      }
    }
    await beside.shutdown()
    let state = try await stores.withStore("stores") { await $0.state }
    guard state.isEmpty else { throw LogViolation("removed stores", "the next store has \(state)") }
  }
  await stores.shutdown()
  try await logs.remove("stores")
}

private func checkRemovalBesideAppends(_ logs: any LogDirectory) async throws {
  for _ in 0..<5 {
    let log = logs["busy"]
    _ = try await log.append([0])
    async let appended = log.append((0..<100).map { [UInt8($0)] })
    async let read = log.read(after: 0, through: .max)
    try await logs.remove("busy")
    // Each call took effect before the removal, or is refused.
    do { _ = try await appended } catch LogError.removed {}
    do { _ = try await read } catch LogError.removed {}
    guard try await logs["busy"].head() == 0 else {
      throw LogViolation("removed beside appends", "an entry appended to a removed tree is in the next tree")
    }
  }
}

private func checkEarlyRemoval(_ logs: any LogDirectory) async throws {
  let part = "removal before the first entry"
  for _ in 0..<2 { try await logs.remove("never used") }
  for _ in 0..<2 {
    let log = logs["empty"]
    guard try await log.head() == 0 else { throw LogViolation(part, "a new tree is not empty") }
    for _ in 0..<2 { try await logs.remove("empty") }
    try await expectRemoved("head", part: part) { _ = try await log.head() }
    try await expectRemoved("append", part: part) { _ = try await log.append([9]) }
    try await expectRemoved("records", part: part) { _ = try await log.read(after: 0, through: .max) }
  }
  var options = LogOptions()
  options.reporting = { _ in }
  let open: @Sendable (any OrderedLog) async throws -> RootStore<[String], String> = { [options] log in
    try await RootStore(following: log, initialState: [], options: FollowingOptions(log: options)) { $0.append($1) }
  }
  for round in 0..<4 {
    let stores = [
      try await open(logs["empty"]), try await open(UnreliableLog(logs["empty"], seed: UInt64(round))),
    ]
    if round % 2 == 0 {
      try await logs.remove("empty")
      for store in stores where (try? await store.send("late")) != nil {
        throw LogViolation(part, "an action sent after the removal is reported as committed")
      }
    } else {
      stores[0].dispatch("early")
      try await logs.remove("empty")
    }
    for store in stores {
      for await phase in store.logPhases() { if case .stopped(.removed) = phase { break } }
      guard case .stopped(.removed)? = await store.statistics.log?.phase else {
        throw LogViolation(part, "a store of the removed tree has not stopped with `.removed`")
      }
      await store.shutdown()
    }
    guard try await all(logs.keys(prefix: "empty")).isEmpty else { throw LogViolation(part, "its key is listed") }
    let next = try await open(logs["empty"])
    guard await next.state.isEmpty else { throw LogViolation(part, "the next tree is not empty") }
    try await next.send("next")
    await next.shutdown()
    try await logs.remove("empty")
  }
}

private func checkEnd(_ logs: any LogDirectory) async throws {
  let log = logs["end"]
  _ = try await log.append([1])
  await logs.close()
  await logs.close()
  var calls: [(String, () async throws -> Void)] = [
    ("head", { _ = try await log.head() }), ("append", { _ = try await log.append([2]) }),
    ("records", { _ = try await log.read(after: 1, through: .max) }),
    ("a new log", { _ = try await logs["another"].head() }), ("keys", { _ = try await all(logs.keys(prefix: "")) }),
    ("remove", { try await logs.remove("end") }),
  ]
  if let summaries = log.summaries {
    calls.append(("summaries", { _ = try await all(logs.summaries(prefix: "")) }))
    calls.append(("save of a summary", { _ = try await summaries.save([], at: 1) }))
  }
  for (name, call) in calls {
    try await expect("end", "\(name) of a closed directory", call) { if case .unavailable = $0 { true } else { false } }
  }
}
