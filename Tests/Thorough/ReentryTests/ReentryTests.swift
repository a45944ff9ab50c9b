import Puredux
import Testing

/// A tree stays whole whatever the user's code does to it where the tree calls it: what was accepted is committed once,
/// in an order that keeps that of each caller and that everybody sees; nothing stands still, and nothing stays alive.
@Suite(.timeLimit(.minutes(15)), .serialized) struct ReentryTests {
  @Test(arguments: Reentry.Scenario.all)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `a tree stays whole whatever is asked of it in any place where it calls`(scenario: Reentry.Scenario) async {
    await Reentry.play(scenario.ground, scenario.place, scenario.operation)
  }
}

extension Reentry {
  struct Scenario: Sendable, CustomTestStringConvertible {
    let ground: Ground
    let place: Place
    let operation: Operation

    var testDescription: String { "\(operation) in \(place) on \(ground)" }

    /// Every operation in every place, each pair on one of the grounds in turn, so that every place and every operation
    /// is met on all of them.
    static let all: [Scenario] = Place.allCases.enumerated().flatMap { number, place in
      Operation.allCases.enumerated().compactMap { turn, operation in
        let grounds = Ground.allCases.filter { place.isFound(on: $0) && operation.isPossible(on: $0) }
        guard !grounds.isEmpty else { return nil }
        return Scenario(ground: grounds[(number + turn) % grounds.count], place: place, operation: operation)
      }
    }
  }
}
