// Checks reads against the order and earlier results.

extension Checker {
  func checkReads() {
    let all = history.calls.indices.filter {
      history.calls[$0].action == nil && history.calls[$0].outcome == .acknowledged
    }
    let reads = all.filter { history.calls[$0].position != nil }
    checkHashes(of: all.filter { history.calls[$0].position == nil && history.calls[$0].hash != nil })
    for index in reads { checkState(of: history.calls[index]) }
    checkStatesThatNobodyRecorded()
    checkCauses(of: reads)
    checkAge(of: reads.filter { history.calls[$0].claim == .linearizable }) { history.files[$0.file].clock }
    checkAge(of: reads.filter { history.calls[$0].claim == .ownWrites }) { $0.writer }
  }

  /// The state is the order's at that position.
  private func checkState(of call: History.Call) {
    guard let position = call.position else { return }
    if let entry = order.entry(at: position) {
      guard let hash = call.hash, hash != entry.hash else { return }
      violations.add(.diverged) {
        Violation(
          kind: .diverged, positions: [position],
          files: files(call.file, history.incarnations[entry.incarnation].file),
          text:
            "a read (\(describe(call))) showed the state \(hex(hash)) at position \(position), where \(describe(entry))"
        )
      }
    } else if let beginning = beginnings[position] {
      guard let hash = call.hash, hash != history.incarnations[beginning].hash else { return }
      violations.add(.diverged) {
        let incarnation = history.incarnations[beginning]
        return Violation(
          kind: .diverged, positions: [position], files: files(call.file, incarnation.file),
          text: """
            a read (\(describe(call))) showed the state \(hex(hash)) at position \(position), with which \
            \(describe(incarnation)) began as \(hex(incarnation.hash))
            """)
      }
    } else if position != 0, !order.isUnrecorded(position) {
      violations.add(.ofNobody) {
        Violation(
          kind: .ofNobody, positions: [position], files: [name(call.file)],
          text: "a read (\(describe(call))) showed position \(position), which the order does not have")
      }
    }
  }

  /// A read without a position must also show a state of the order.
  private func checkHashes(of reads: [Int]) {
    // Unrecorded positions may have any state.
    guard !reads.isEmpty, order.gaps.isEmpty else { return }
    let hashes = Set(order.entries.map(\.hash) + history.incarnations.map(\.hash))
    // The initial state is known only if a replica began with it.
    if beginnings[0] == nil { return }
    for index in reads where !hashes.contains(history.calls[index].hash ?? 0) {
      let call = history.calls[index]
      violations.add(.ofNobody) {
        Violation(
          kind: .ofNobody, files: [name(call.file)],
          text: "a read (\(describe(call))) showed the state \(hex(call.hash ?? 0)), which the order does not have")
      }
    }
  }

  /// Calls with the same position must have the same state, even if no replica has recorded it.
  private func checkStatesThatNobodyRecorded() {
    var first: [Int: Int] = [:]
    for (index, call) in history.calls.enumerated() where call.outcome == .acknowledged {
      guard let position = call.position, let hash = call.hash, order.entry(at: position) == nil,
        position == 0 || order.isUnrecorded(position)
      else { continue }
      if let beginning = beginnings[position] {
        // Reads have already been checked.
        guard call.action != nil, hash != history.incarnations[beginning].hash else { continue }
        let incarnation = history.incarnations[beginning]
        addOtherState(
          call, position, hash, "with which \(describe(incarnation)) began as \(hex(incarnation.hash))",
          incarnation.file)
        continue
      }
      let other = history.calls[first[position, default: index]]
      first[position] = first[position] ?? index
      guard let otherHash = other.hash, otherHash != hash else { continue }
      addOtherState(
        call, position, hash, "where another call (\(describe(other))) showed \(hex(otherHash))", other.file)
    }
  }

  private func addOtherState(_ call: History.Call, _ position: Int, _ hash: UInt64, _ why: String, _ file: Int) {
    violations.add(.diverged) {
      Violation(
        kind: .diverged, actions: call.action.map { names([$0]) } ?? [], positions: [position],
        files: files(call.file, file),
        text: "a call (\(describe(call))) showed the state \(hex(hash)) at position \(position), \(why)")
    }
  }

  /// A read must not show an action that was called after it returned.
  private func checkCauses(of reads: [Int]) {
    // For each clock, the positions at which the latest call so far advances.
    var latest: [Int: [(position: Int, action: Int)]] = [:]
    for (place, action) in order.actions.enumerated() where order.places[action] == place {
      guard let clock = facts[action].clock else { continue }
      if let before = latest[clock]?.last, facts[before.action].invoked >= facts[action].invoked { continue }
      latest[clock, default: []].append((order.entries[order.entryOfPlace[place]].position, action))
    }
    for index in reads {
      let read = history.calls[index]
      guard let position = read.position, let returned = read.returned,
        let ofClock = latest[history.files[read.file].clock]
      else { continue }
      let count = ofClock.partitioningIndex { $0.position > position }
      guard count > 0, facts[ofClock[count - 1].action].invoked > returned else { continue }
      let (place, action) = ofClock[count - 1]
      violations.add(.ofNobody) {
        Violation(
          kind: .ofNobody, actions: names([action]), positions: [place, position],
          files: files(read.file, file(action)),
          text: """
            a read (\(describe(read))) showed position \(position), and \(describe(action)) is at position \(place), \
            which had not been called
            """)
      }
    }
  }

  /// A read must be as recent as all results before it began, among calls with the same key.
  private func checkAge(of reads: [Int], by key: (History.Call) -> Int) {
    if reads.isEmpty { return }
    // Results by time, each replaced by the furthest position so far.
    var told: [Int: [(at: Int, position: Int, call: Int)]] = [:]
    for (index, call) in history.calls.enumerated() where call.outcome == .acknowledged {
      guard let returned = call.returned else { continue }
      let position = call.action.flatMap { order.entry(of: $0)?.position } ?? call.position
      if let position { told[key(call), default: []].append((returned, position, index)) }
    }
    for key in told.keys {
      told[key]?.sort { $0.at < $1.at }
      guard var furthest = told[key]?.first else { continue }
      for index in told[key, default: []].indices {
        let own = told[key, default: []][index]
        if own.position > furthest.position { furthest = own }
        told[key, default: []][index] = (own.at, furthest.position, furthest.call)
      }
    }
    for index in reads {
      let read = history.calls[index]
      let before = told[key(read), default: []]
      let count = before.partitioningIndex { $0.at >= read.invoked }
      guard count > 0, let position = read.position, before[count - 1].position > position else { continue }
      addStale(read, position, history.calls[before[count - 1].call], before[count - 1].position)
    }
  }

  private func addStale(_ read: History.Call, _ position: Int, _ told: History.Call, _ furthest: Int) {
    violations.add(.stale) {
      let what = told.action.map { describe($0) } ?? "another read (\(describe(told)))"
      return Violation(
        kind: .stale, actions: told.action.map { names([$0]) } ?? [], positions: [position, furthest],
        files: files(read.file, told.file),
        text: """
          a read (\(describe(read))) that claims \(read.claim.rawValue) showed position \(position), though \(what) \
          had been told position \(furthest) before
          """)
    }
  }
}
