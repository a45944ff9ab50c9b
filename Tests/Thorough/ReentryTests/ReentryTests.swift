import Puredux
import Testing

/// A tree stays consistent whatever the user's code does in a call from it. Accepted actions are committed once, in an
/// order that everybody sees and that keeps each caller's order. Nothing deadlocks, and nothing leaks.
@Suite(.timeLimit(.minutes(15)), .serialized) struct ReentryTests {
  @Test(arguments: Reentry.Scenario.all)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `a tree stays consistent whatever code that it calls does, in any place`(scenario: Reentry.Scenario) async {
    await Reentry.play(scenario.ground, scenario.place, scenario.operation)
  }
}

extension Reentry {
  struct Scenario: Sendable, CustomTestStringConvertible {
    let ground: Ground
    let place: Place
    let operation: Operation

    var testDescription: String { "\(operation) in \(place) on \(ground)" }

    /// Every pair of an operation and a place, each on one of the grounds in turn, so that every place and every
    /// operation meets all of them.
    static let all: [Scenario] = Place.allCases.enumerated().flatMap { number, place in
      Operation.allCases.enumerated().compactMap { turn, operation in
        let grounds = Ground.allCases.filter { place.isFound(on: $0) && operation.isPossible(on: $0) }
        guard !grounds.isEmpty else { return nil }
        return Scenario(ground: grounds[(number + turn) % grounds.count], place: place, operation: operation)
      }
    }
  }
}
