import Puredux

enum EffectsInWords: Sendable {
  case none, some(String)
  case unknown

  func inWords(_ title: String) -> String? {
    switch self {
    case .none: nil
    case .some(let text): "\(title): \(text)"
    case .unknown: "The tree could not be asked for its effects"
    }
  }
}

extension StoreProbe {
  func runningEffects(within limit: Duration) async -> EffectsInWords {
    let answer = LockedValue(EffectsInWords.unknown)
    _ = await wait(within: limit) {
      let (named, unnamed) = await effects()
      let effects = effectsInWords(named: named, unnamed: unnamed)
      answer.withLock { $0 = effects }
    }
    return answer.withLock { $0 }
  }

  func lateEffects() async -> EffectsInWords { await runningEffects(within: .seconds(1)) }
}

private func effectsInWords(named: [String: Int], unnamed: Int) -> EffectsInWords {
  var parts = named.filter { $0.value > 0 }.sorted { $0.key < $1.key }
    .map { "\"\($0.key)\"" + ($0.value > 1 ? " (\($0.value))" : "") }
  if unnamed > 0 { parts.append("\(unnamed) without an id, or cancelled") }
  return parts.isEmpty ? .none : .some(parts.joined(separator: ", "))
}
