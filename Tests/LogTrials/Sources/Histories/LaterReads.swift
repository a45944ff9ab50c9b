/// The linearizable reads, by their beginnings.
struct LaterReads {
  private let history: History
  /// For each clock, the reads by their beginnings; for each read, the one that showed the furthest position among it
  /// and the later ones.
  private var reads: [Int: [(index: Int, furthest: Int)]] = [:]

  init(_ history: History) {
    self.history = history
    for (index, call) in history.calls.enumerated()
    where call.action == nil && call.outcome == .acknowledged && call.claim == .linearizable && call.position != nil {
      reads[history.files[call.file].clock, default: []].append((index, index))
    }
    for (clock, ofClock) in reads {
      var sorted = ofClock.sorted { history.calls[$0.index].invoked < history.calls[$1.index].invoked }
      for place in sorted.indices.dropLast().reversed() {
        let later = sorted[place + 1].furthest
        if position(later) > position(sorted[place].index) { sorted[place].furthest = later }
      }
      reads[clock] = sorted
    }
  }

  private func position(_ index: Int) -> Int { history.calls[index].position ?? 0 }

  /// The read that showed the furthest position, among those that began after a call returned, by the same clock.
  func furthest(after call: History.Call) -> History.Call? {
    guard let returned = call.returned, let ofClock = reads[history.files[call.file].clock] else { return nil }
    let first = ofClock.partitioningIndex { history.calls[$0.index].invoked > returned }
    return first < ofClock.count ? history.calls[ofClock[first].furthest] : nil
  }
}
