// What reads showed, beside the order and what had been told before them.

extension Checker {
  func checkReads() {
    let reads = history.calls.indices.filter {
      history.calls[$0].action == nil && history.calls[$0].outcome == .acknowledged && history.calls[$0].position != nil
    }
    for index in reads { checkState(of: history.calls[index]) }
    checkAge(of: reads.filter { history.calls[$0].claim == .linearizable }) { history.files[$0.file].clock }
    checkAge(of: reads.filter { history.calls[$0].claim == .ownWrites }) { $0.writer }
  }

  /// A read shows a state of the order.
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

  /// A read is no older than what had been told before it began, to anybody with the same key.
  private func checkAge(of reads: [Int], by key: (History.Call) -> Int) {
    if reads.isEmpty { return }
    // What was told, by time; of each the furthest position up to there.
    var told: [Int: [(at: Int, position: Int, call: Int)]] = [:]
    for (index, call) in history.calls.enumerated() where call.outcome == .acknowledged {
      guard let returned = call.returned else { continue }
      let position = call.action.map { order.entry(of: $0)?.position } ?? call.position
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
