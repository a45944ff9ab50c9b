import Foundation
import Programs

@main
struct Command {
  static func main() async {
    do {
      let arguments = try Arguments(CommandLine.arguments.dropFirst())
      let isGood =
        switch arguments.command {
        case "run": try await RunCommand(arguments).run()
        case "worker": await Worker(arguments).run()
        case "try": try await Worker(arguments).tryProgram()
        case "soak":
          await Soak(
            minutes: arguments.minutes, seed: arguments.seed, features: arguments.features
          ).run()
        default: throw ArgumentError(text: "Unknown command: \(arguments.command)")
        }
      exit(isGood ? 0 : 1)
    } catch {
      say("\(error)")
      say(Arguments.usage)
      exit(2)
    }
  }
}

struct ArgumentError: Error, CustomStringConvertible {
  var text: String
  var description: String { text }
}

struct Arguments: Sendable {
  static let usage = """
    programs run [--count N] [--seed S] [--only K] [--workers W] [--without FEATURE,...] [--shrink N]
    programs soak [--minutes M] [--seed S] [--without FEATURE,...]

      --only K      runs only the K-th program of the seed, --times T times
      --limit L     a program that takes longer than L seconds fails
      --shrink N    the number of failures to make smaller, each within a minute

    Features: \(Features.names.map(\.name).joined(separator: ", "))
    """

  var command: String
  var count = 10_000
  var seed: UInt64
  var only: Int?
  var times = 1
  var workers = 2
  var without: [String] = []
  var shrinks = 2
  var limit: Int?
  var minutes = 1.0
  var from = 0
  var stride = 1

  var features: Features {
    Features.names.reduce(into: .all) { features, named in
      if without.contains(named.name) { features.remove(named.feature) }
    }
  }

  init(_ arguments: ArraySlice<String>) throws {
    let environment = ProcessInfo.processInfo.environment
    seed = environment["PUREDUX_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 1..<1_000_000_000)
    if let number = environment["PUREDUX_PROGRAMS"].flatMap({ Int($0) }) { count = number }
    guard let first = arguments.first else { throw ArgumentError(text: "A command is missing.") }
    command = first
    var rest = arguments.dropFirst()
    while let name = rest.popFirst() {
      guard let text = rest.popFirst() else { throw ArgumentError(text: "\(name) needs a value.") }
      func number<Number: LosslessStringConvertible>() throws -> Number {
        guard let number = Number(text) else { throw ArgumentError(text: "\(name) needs a number, not \(text).") }
        return number
      }
      switch name {
      case "--count": count = try number()
      case "--seed": seed = try number()
      case "--only": only = try number()
      case "--times": times = try number()
      case "--workers": workers = max(1, try number())
      case "--without":
        without = text.split(separator: ",").map(String.init)
        if let unknown = without.first(where: { name in !Features.names.contains { $0.name == name } }) {
          throw ArgumentError(text: "There is no feature \(unknown).")
        }
      case "--shrink": shrinks = try number()
      case "--limit": limit = try number()
      case "--minutes": minutes = try number()
      case "--from": from = try number()
      case "--stride": stride = try number()
      default: throw ArgumentError(text: "Unknown option: \(name)")
      }
    }
  }
}
