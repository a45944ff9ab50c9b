package func all<Element>(_ elements: AsyncThrowingStream<Element, any Error>) async throws -> [Element] {
  var all: [Element] = []
  for try await element in elements { all.append(element) }
  return all
}
