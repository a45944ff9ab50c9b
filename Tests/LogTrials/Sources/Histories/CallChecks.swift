// Checks calls against the order.

extension Checker {
  /// Checks each action's outcome and place against its acknowledgements.
  mutating func checkCalls() {
    for (action, facts) in facts.enumerated() where facts.attempts > 0 {
      if facts.acknowledged != nil {
        figures.acknowledged += 1
      } else if facts.isRefused {
        figures.failed += 1
      } else {
        figures.unknown += 1
        if order.places[action] >= 0 { figures.unknownTaken += 1 }
      }
    }
    noteTold()
    let shown = LaterReads(history)
    for (index, call) in history.calls.enumerated() where call.outcome == .acknowledged {
      guard let action = call.action else { continue }
      if let entry = order.entry(of: action) {
        checkPosition(of: action, call, entry)
        if facts[action].acknowledged == index { checkShown(action, entry, shown.furthest(after: call)) }
      } else if facts[action].acknowledged == index {
        checkMissing(action, call)
      }
    }
  }

  /// Notes actions with several acknowledgements, and the acknowledged positions that nobody recorded.
  private mutating func noteTold() {
    for (index, call) in history.calls.enumerated() where call.outcome == .acknowledged {
      guard let action = call.action else { continue }
      if facts[action].acknowledged != index {
        acknowledgements[action, default: facts[action].acknowledged.map { [$0] } ?? []].append(index)
      }
      guard order.places[action] < 0, let position = call.position, order.isUnrecorded(position) else { continue }
      if let other = toldOnly[action], other != position {
        violations.add(.diverged) {
          Violation(
            kind: .diverged, actions: names([action]), positions: [other, position],
            files: files(file(action), call.file),
            text: "\(describe(action)) was told position \(other), and position \(position)")
        }
      } else {
        toldOnly[action] = position
      }
    }
  }

  /// Among the reads that began after an acknowledgement and claim to be linearizable, one must show the action. If
  /// none does, the log has lost its end, even if a replica had applied it.
  private mutating func checkShown(_ action: Int, _ entry: Order.Entry, _ read: History.Call?) {
    guard let read, let position = read.position, position < entry.position else { return }
    figures.missing += 1
    violations.add(.lost) {
      let incarnation = history.incarnations[entry.incarnation]
      return Violation(
        kind: .lost, actions: names([action]), positions: [entry.position, position],
        files: files(file(action), incarnation.file, read.file),
        text: """
          \(describe(action)) was applied by \(describe(incarnation)) at position \(entry.position), and no \
          linearizable read that began later showed it: the furthest (\(describe(read))) showed position \(position)
          """)
    }
  }

  private mutating func checkMissing(_ action: Int, _ call: History.Call) {
    // An acknowledgement at an unrecorded position cannot be contradicted.
    if toldOnly[action] != nil { return }
    figures.missing += 1
    if let application = applications[action] {
      violations.add(.lost) {
        let incarnation = history.incarnations[application.incarnation]
        return Violation(
          kind: .lost, actions: names([action]), positions: [application.position],
          files: files(call.file, incarnation.file),
          text: """
            \(describe(action)) is not in the order; \(describe(incarnation)) applied it at position \
            \(application.position)
            """)
      }
    } else {
      let kind: Violation.Kind = order.gaps.isEmpty ? .lost : .unrecorded
      violations.add(kind) {
        Violation(
          kind: kind, actions: names([action]), positions: call.position.map { [$0] } ?? [], files: [name(call.file)],
          text: "\(describe(action)) is in nothing that any replica applied"
            + (kind == .lost
              ? ""
              : " and recorded; positions after \(order.gaps[0].after) up to "
                + "\(order.gaps[0].through) are not recorded"))
      }
    }
  }

  /// Checks the position and state in an acknowledgement.
  private func checkPosition(of action: Int, _ call: History.Call, _ entry: Order.Entry) {
    let position = call.position ?? entry.position
    let isTwice = order.entry(at: position).map { order.actions[$0.range].contains(action) } ?? false
    if entry.position != position, !isTwice {
      violations.add(.diverged) {
        Violation(
          kind: .diverged, actions: names([action]), positions: [position, entry.position],
          files: files(call.file, history.incarnations[entry.incarnation].file),
          text: """
            \(describe(action)) was told position \(position), and is at position \(entry.position), where \
            \(describe(entry))
            """)
      }
    } else if entry.position == position, let hash = call.hash, hash != entry.hash {
      violations.add(.diverged) {
        Violation(
          kind: .diverged, actions: names([action]), positions: [position],
          files: files(call.file, history.incarnations[entry.incarnation].file),
          text: """
            \(describe(action)) was shown the state \(hex(hash)) at position \(position), where \(describe(entry))
            """)
      }
    }
  }

  /// Walks through the order. For each clock and each writer, keeps the latest called of the earlier actions: an action
  /// must not precede one that was acknowledged before its call. Actions with unrecorded positions are inserted at
  /// these.
  func checkOrderOfCalls() {
    var latestOfClock = Array(repeating: -1, count: history.clocks.count)
    var latestOfWriter = Array(repeating: -1, count: history.writers.count)
    func check(_ action: Int) {
      let own = facts[action]
      guard let calls = own.calls else { return }
      for index in acknowledgements[action] ?? own.acknowledged.map({ [$0] }) ?? [] {
        let acknowledged = history.calls[index]
        let earlier = latestOfClock[history.files[acknowledged.file].clock]
        guard earlier >= 0, let returned = acknowledged.returned, returned < facts[earlier].invoked else { continue }
        addReordered(earlier, action, "had been acknowledged before the first was called")
        break
      }
      guard let writer = own.writer else { return }
      let earlier = latestOfWriter[writer]
      if earlier >= 0, let callsOfEarlier = facts[earlier].calls, calls.upperBound < callsOfEarlier.lowerBound {
        addReordered(earlier, action, "had been called before the first by the same writer")
      }
    }
    func enter(_ action: Int) {
      let own = facts[action]
      guard let calls = own.calls else { return }
      if let clock = own.clock {
        let latest = latestOfClock[clock]
        if latest < 0 || facts[latest].invoked < own.invoked { latestOfClock[clock] = action }
      }
      guard let writer = own.writer else { return }
      let earlier = latestOfWriter[writer]
      if earlier < 0 || (facts[earlier].calls?.lowerBound ?? 0) < calls.lowerBound { latestOfWriter[writer] = action }
    }
    var unrecorded = toldOnly.sorted { $0.value < $1.value }[...]
    /// The order of actions at one position is unknown.
    func pass(before position: Int) {
      while let first = unrecorded.first?.value, first < position {
        let together = unrecorded.prefix { $0.value == first }
        unrecorded = unrecorded.dropFirst(together.count)
        for (action, _) in together { check(action) }
        for (action, _) in together { enter(action) }
      }
    }
    for (place, action) in order.actions.enumerated() where order.places[action] == place {
      if !unrecorded.isEmpty { pass(before: order.entries[order.entryOfPlace[place]].position) }
      check(action)
      enter(action)
    }
    pass(before: .max)
  }

  private func addReordered(_ earlier: Int, _ later: Int, _ why: String) {
    violations.add(.reordered) {
      let entries = [earlier, later].map { order.entry(of: $0) }
      let positions = zip([earlier, later], entries).map { $1?.position ?? toldOnly[$0] ?? 0 }
      return Violation(
        kind: .reordered, actions: names([earlier, later]), positions: positions,
        files: files(file(earlier), file(later), entries[1].map { history.incarnations[$0.incarnation].file }),
        text: """
          \(describe(earlier)) is at position \(positions[0]), before \(describe(later)) at position \
          \(positions[1]), which \(why)
          """)
    }
  }
}
