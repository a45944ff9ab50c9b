// Checks the replicas' applied entries, alone and against the order.

extension Checker {
  /// Checks that each applied action was called, not refused, and applied once.
  mutating func checkApplications() {
    // For each action, the last incarnation that applied it, counted from one, and the position.
    var lastSeen = Array(repeating: (incarnation: 0, position: 0), count: history.actions.count)
    var doubled: Set<Int> = []
    for (index, incarnation) in history.incarnations.enumerated() {
      var last = incarnation.after
      for entry in incarnation.entries {
        if entry.position <= last {
          violations.add(.notRising) {
            Violation(
              kind: .notRising, positions: [last, entry.position], files: [name(incarnation.file)],
              text: "\(describe(incarnation)) applied position \(entry.position) after position \(last)")
          }
        }
        last = max(last, entry.position)
        for action in incarnation.actions[entry.range] {
          if applications[action] == nil { checkFirstApplication(of: action, entry, incarnation) }
          applications[action] = (index, entry.position)
          if lastSeen[action].incarnation == index + 1, doubled.insert(action).inserted {
            addDoubled(action, [lastSeen[action].position, entry.position], by: [incarnation])
          }
          lastSeen[action] = (index + 1, entry.position)
        }
      }
    }
    for entry in order.entries {
      for place in entry.range where order.places[order.actions[place]] != place {
        let action = order.actions[place]
        guard doubled.insert(action).inserted, let first = order.entry(of: action) else { continue }
        addDoubled(
          action, [first.position, entry.position],
          by: [history.incarnations[first.incarnation], history.incarnations[entry.incarnation]])
      }
    }
    figures.twice = doubled.count
  }

  private func checkFirstApplication(
    of action: Int, _ entry: History.Incarnation.Entry, _ incarnation: History.Incarnation
  ) {
    if facts[action].calls == nil {
      violations.add(.ofNobody) {
        Violation(
          kind: .ofNobody, actions: names([action]), positions: [entry.position], files: [name(incarnation.file)],
          text: "\(describe(incarnation)) applied \(describe(action)) at position \(entry.position)")
      }
    } else if facts[action].isRefused {
      violations.add(.refusedYetApplied) {
        Violation(
          kind: .refusedYetApplied, actions: names([action]), positions: [entry.position],
          files: files(incarnation.file, file(action)),
          text: "\(describe(incarnation)) applied \(describe(action)) at position \(entry.position)")
      }
    }
  }

  private func addDoubled(_ action: Int, _ positions: [Int], by incarnations: [History.Incarnation]) {
    violations.add(.doubled) {
      var who = incarnations.map { describe($0) }
      if Set(who).count == 1 { who = [who[0]] }
      return Violation(
        kind: .doubled, actions: names([action]), positions: positions,
        files: files(incarnations.first?.file, incarnations.last?.file, file(action)),
        text: """
          \(describe(action)) was applied at positions \(positions.map(String.init).joined(separator: " and ")) \
          by \(who.joined(separator: " and "))
          """)
    }
  }

  /// Compares each replica with the order. Reports the first difference and the number of others.
  mutating func checkReplicas(of history: History) {
    for (index, incarnation) in history.incarnations.enumerated() {
      checkBeginning(of: incarnation, beside: beginnings[incarnation.after].map { history.incarnations[$0] })
      if beginnings[incarnation.after] == nil { beginnings[incarnation.after] = index }
      var (diverged, notAPrefix) = (Differences(), Differences())
      var place = order.index(behind: incarnation.after)
      for entry in incarnation.entries {
        while place < order.entries.count, order.entries[place].position < entry.position {
          let passed = order.entries[place]
          notAPrefix.add(passed.position, order.actions[passed.range]) {
            "passed over position \(passed.position), where \(describe(passed))"
          }
          place += 1
        }
        let actions = incarnation.actions[entry.range]
        guard place < order.entries.count, order.entries[place].position == entry.position else {
          notAPrefix.add(entry.position, actions) {
            "applied \(list(actions)) at position \(entry.position), which the order does not have"
          }
          continue
        }
        let other = order.entries[place]
        place += 1
        if actions != order.actions[other.range] {
          diverged.add(entry.position, actions) {
            "applied \(list(actions)) at position \(entry.position), where \(describe(other))"
          }
        } else if entry.hash != other.hash {
          diverged.add(entry.position, actions) {
            "has the state \(hex(entry.hash)) at position \(entry.position), where \(describe(other))"
          }
        }
      }
      add(.diverged, diverged, of: incarnation)
      add(.notAPrefix, notAPrefix, of: incarnation)
    }
  }

  private func checkBeginning(of incarnation: History.Incarnation, beside other: History.Incarnation?) {
    let position = incarnation.after
    let begins = "\(describe(incarnation)) began with the state \(hex(incarnation.hash)) of position \(position)"
    if let entry = order.entry(at: position) {
      guard entry.hash != incarnation.hash else { return }
      violations.add(.diverged) {
        Violation(
          kind: .diverged, positions: [position],
          files: files(incarnation.file, history.incarnations[entry.incarnation].file),
          text: "\(begins), where \(describe(entry))")
      }
    } else if position > 0, !order.isUnrecorded(position) {
      violations.add(.notAPrefix) {
        Violation(
          kind: .notAPrefix, positions: [position], files: [name(incarnation.file)],
          text: "\(begins), which the order does not have")
      }
    } else if let other, other.hash != incarnation.hash {
      violations.add(.diverged) {
        Violation(
          kind: .diverged, positions: [position], files: files(incarnation.file, other.file),
          text: "\(begins), and \(describe(other)) with \(hex(other.hash))")
      }
    }
  }

  private func add(_ kind: Violation.Kind, _ differences: Differences, of incarnation: History.Incarnation) {
    guard let first = differences.first else { return }
    violations.add(kind) {
      let more = differences.count > 1 ? "; \(differences.count - 1) more follow" : ""
      return Violation(
        kind: kind, actions: names(first.actions.prefix(10)), positions: [first.position],
        files: [name(incarnation.file)], text: "\(describe(incarnation)) \(first.text)\(more)")
    }
  }
}

/// The number of differences, and the first one.
private struct Differences {
  private(set) var count = 0
  private(set) var first: (position: Int, actions: ArraySlice<Int>, text: String)?

  mutating func add(_ position: Int, _ actions: ArraySlice<Int>, _ text: () -> String) {
    count += 1
    if first == nil { first = (position, actions, text()) }
  }
}
