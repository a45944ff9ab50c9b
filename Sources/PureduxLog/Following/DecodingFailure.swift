/// The text of a decoding error, with its coding path.
func describe(_ error: any Error) -> String {
  guard let error = error as? DecodingError else { return "\(error)" }
  switch error {
  case .keyNotFound(let key, let context): return "no value for \(key.stringValue)" + place(context)
  case .valueNotFound(let type, let context): return "null in place of \(type)" + place(context)
  case .typeMismatch(let type, let context): return "no \(type)" + place(context)
  case .dataCorrupted(let context): return context.debugDescription + place(context)
  @unknown default: return "\(error)"
  }
}

private func place(_ context: DecodingError.Context) -> String {
  if context.codingPath.isEmpty { return "" }
  return " at " + context.codingPath.map { $0.intValue.map { "[\($0)]" } ?? $0.stringValue }.joined(separator: ".")
}
