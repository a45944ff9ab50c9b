/// Adds the events of one file to a history.
struct FileReader {
  let file: Int
  /// Calls that have not returned: indices into the history's calls by number.
  private var pending: [Int: Int] = [:]
  private var lastCall = 0
  /// Each replica's present incarnation, as an index into the history's.
  private var incarnations: [String: Int] = [:]

  init(file: Int) { self.file = file }

  mutating func read(_ line: ArraySlice<UInt8>, into history: inout History) {
    history.files[file].lines += 1
    guard let event = Event(line: line) else { return refuse("this is no event of a history", &history) }
    switch event {
    case .process(let name, let clock):
      guard history.files[file].lines == 1 else { return refuse("it is not the first line", &history) }
      history.files[file].process = name
      history.files[file].clock = history.clocks.index(of: clock)
    case .invocation(let call, let writer, let action, let at):
      invoke(call, by: writer, history.actions.index(of: action), claim: .committed, at, &history)
    case .read(let call, let writer, let claim, let at):
      invoke(call, by: writer, nil, claim: claim, at, &history)
    case .response(let call, let outcome, let position, let hash, let at):
      guard let index = pending.removeValue(forKey: call) else {
        return refuse("call \(call) has not begun, or has returned before", &history)
      }
      guard history.calls[index].invoked <= at else { return refuse("call \(call) returns before it began", &history) }
      history.calls[index].returned = at
      history.calls[index].outcome = outcome
      history.calls[index].position = position
      history.calls[index].hash = hash
    case .incarnation(let replica, let after, let hash, let at):
      incarnations[replica] = history.incarnations.count
      history.incarnations.append(
        History.Incarnation(file: file, replica: replica, after: after, hash: hash, at: at))
    case .applied(let replica, let position, let actions, let hash):
      guard let index = incarnations[replica] else { return refuse("replica \(replica) has not begun", &history) }
      let first = history.incarnations[index].actions.count
      for action in actions {
        let action = history.actions.index(of: action)
        history.incarnations[index].actions.append(action)
      }
      history.incarnations[index].entries.append(
        History.Incarnation.Entry(position: position, hash: hash, range: first..<first + actions.count))
    }
  }

  private mutating func invoke(
    _ call: Int, by writer: String, _ action: Int?, claim: Claim, _ at: Int, _ history: inout History
  ) {
    guard call > lastCall else { return refuse("call \(call) is not newer than call \(lastCall)", &history) }
    lastCall = call
    pending[call] = history.calls.count
    // Writers of different files are distinct, even with the same name.
    let writer = history.writers.index(of: "\(file) \(writer)")
    history.calls.append(
      History.Call(file: file, number: call, writer: writer, action: action, claim: claim, invoked: at))
  }

  private func refuse(_ why: String, _ history: inout History) {
    history.unreadable.append(History.Unreadable(file: file, line: history.files[file].lines, why: why))
  }
}
