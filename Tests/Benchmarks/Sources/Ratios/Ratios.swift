import Foundation
import Output

/// Reads the harness's results, prints the table of ratios, and fails if a bound is missed.
@main
struct Ratios {
  /// The required part of a result in the JMH format.
  struct Result: Decodable {
    struct Metric: Decodable {
      let rawData: [[Double]]

      /// In ascending order. The figures are thousandths.
      var values: [Double] { rawData.joined().map { $0 / 1000 }.sorted() }
    }
    let benchmark: String
    let secondaryMetrics: [String: Metric]

    /// The benchmark's name, without the prefix of the harness.
    var name: String {
      (benchmark.split(separator: ".Stores.", maxSplits: 1).last.map(String.init) ?? benchmark)
        .replacing("_", with: " ")
    }
    private var fields: [String] { name.split(separator: " | ").map(String.init) }
    var number: Int { fields.first.flatMap { Int($0) } ?? 0 }
    var parts: [String] { Array(fields.dropFirst()) }
  }

  static func main() throws {
    Output.prepare()
    guard CommandLine.arguments.count > 1 else {
      print("Usage: Ratios FILES, with the files that the harness has written.")
      exit(2)
    }
    let files = CommandLine.arguments.dropFirst().map { URL(filePath: $0) }
    let results = try files.filter { $0.pathExtension == "json" }.flatMap {
      try JSONDecoder().decode([Result].self, from: Data(contentsOf: $0))
    }
    // The harness leaves out lines whose iterations take more than a second.
    let expected = try files.filter { $0.pathExtension == "txt" }.flatMap {
      try String(contentsOf: $0, encoding: .utf8).split(separator: "\n").map(String.init)
    }
    guard !results.isEmpty else {
      print("Nothing was measured; the filter is matched against a line's whole name.")
      exit(2)
    }
    var missed: [String] = []
    print("| what | ours | beside it | theirs | ratio | lowest to highest | at most | |")
    print("|---|---|---|---|---|---|---|---|")
    for result in results.sorted(by: { $0.number < $1.number }) {
      let name = result.name
      let parts = result.parts
      guard parts.count == 4, let ours = result.secondaryMetrics["ours"]?.values, !ours.isEmpty else {
        print("| \(name) | not measured | | | | | | |")
        missed.append(name)
        continue
      }
      let unit = parts[3] == "." ? "" : " \(parts[3])"
      guard parts[1] != "-", let theirs = result.secondaryMetrics["theirs"]?.values,
        let ratios = result.secondaryMetrics["ratio"]?.values
      else {
        let figures = [0.5, 0.9, 0.99].map { "p\(Int($0 * 100)) \(show(ours.percentile($0)))\(unit)" }
        print("| \(parts[0]) | \(figures.joined(separator: ", ")) | | | | | | |")
        continue
      }
      let ratio = ratios.percentile(0.5)
      let bound = Double(parts[2])
      let isMissed = bound.map { ratio > $0 } ?? false
      if isMissed { missed.append("\(parts[0]), beside \(parts[1]): \(show(ratio)), at most \(parts[2])") }
      print(
        "| \(parts[0]) | \(show(ours.percentile(0.5)))\(unit) | \(parts[1]) | \(show(theirs.percentile(0.5)))\(unit) "
          + "| \(show(ratio)) | \(show(ratios[0])) to \(show(ratios[ratios.count - 1])) | \(bound.map(show) ?? "") "
          + "| \(bound == nil ? "" : isMissed ? "missed" : "kept") |")
    }
    let numbers = Set(results.map(\.number))
    for line in expected where !numbers.contains(Int(line.prefix { $0 != " " }) ?? 0) {
      missed.append("\(line): not measured")
    }
    print("\n\(results.count) lines; \(missed.count) bounds missed")
    for line in missed { print("- \(line)") }
    exit(missed.isEmpty ? 0 : 1)
  }

  private static func show(_ figure: Double) -> String {
    switch abs(figure) {
    case 0: "0"
    case ..<10: String(format: "%.2f", figure)
    case ..<1_000_000: String(format: "%.0f", figure)
    default: String(format: "%.3g", figure)
    }
  }
}

extension [Double] {
  fileprivate func percentile(_ part: Double) -> Double { self[Int((Double(count - 1) * part).rounded())] }
}
