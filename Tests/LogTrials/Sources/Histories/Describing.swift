// Descriptions of calls, replicas and files in violations.

extension Checker {
  func name(_ file: Int) -> String { history.files[file].name }

  func files(_ files: Int?...) -> [String] {
    var names: [String] = []
    for file in files.compactMap(\.self) where !names.contains(name(file)) { names.append(name(file)) }
    return names
  }

  func describe(_ call: History.Call) -> String {
    let writer = history.writers[call.writer].drop { $0 != " " }.dropFirst()
    let outcome =
      switch (call.returned, call.outcome) {
      case (nil, _): "never returned"
      case (let returned?, .acknowledged): "acknowledged at \(returned)"
      case (let returned?, .failed): "refused at \(returned)"
      case (let returned?, .unknown): "unknown since \(returned)"
      }
    return "call \(call.number) of \(writer) in \(name(call.file)), at \(call.invoked), \(outcome)"
  }

  func describe(_ action: Int) -> String {
    guard let calls = facts[action].calls else { return "\(history.actions[action]) (called by nobody)" }
    let call = history.calls[facts[action].acknowledged ?? calls.lowerBound]
    let attempts = facts[action].attempts > 1 ? ", one of \(facts[action].attempts)" : ""
    return "\(history.actions[action]) (\(describe(call))\(attempts))"
  }

  func describe(_ incarnation: History.Incarnation) -> String {
    "\(incarnation.replica) in \(name(incarnation.file))"
  }

  func describe(_ entry: Order.Entry) -> String {
    let incarnation = describe(history.incarnations[entry.incarnation])
    return "\(incarnation) applied \(list(order.actions[entry.range])) and has the state \(hex(entry.hash))"
  }

  func names(_ actions: some Sequence<Int>) -> [String] { actions.map { history.actions[$0] } }

  func list(_ actions: some Collection<Int>) -> String {
    let shown = names(actions.prefix(4)).joined(separator: ", ")
    return actions.isEmpty ? "nothing" : actions.count > 4 ? "\(shown) and \(actions.count - 4) more" : shown
  }

  /// The file of an action's most informative call.
  func file(_ action: Int) -> Int? {
    (facts[action].acknowledged ?? facts[action].calls?.lowerBound).map { history.calls[$0].file }
  }

  func hex(_ hash: UInt64) -> String { String(hash, radix: 16) }
}
