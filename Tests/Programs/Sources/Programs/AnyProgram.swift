/// A random program of one of the families.
public enum AnyProgram: Codable, Sendable, Simplifiable {
  /// A tree, and tasks that use it in all ways.
  case tree(Program)
  /// Effects that begin and are cancelled, step by step.
  case effects(EffectProgram)
  /// Effects that end each other's stores.
  case ends(EndsProgram)
  /// The stores of a directory.
  case directory(DirectoryProgram)

  public struct Verdict: Sendable {
    public var failures: [String]
    public var commits = 0
    public var deliveries = 0
  }

  public init(seed: UInt64, features: Features = .all) {
    var random = SeededGenerator(seed: seed ^ 0xFA31)
    var families: [Features] = []
    for (family, weight) in [(Features.trees, 4), (.effects, 3), (.ends, 2), (.directories, 1)]
    where features.contains(family) {
      families += Array(repeating: family, count: weight)
    }
    switch families.randomElement(using: &random) {
    case .effects: self = .effects(EffectProgram(seed: seed, features: features))
    case .ends: self = .ends(EndsProgram(seed: seed, features: features))
    case .directories: self = .directory(DirectoryProgram(seed: seed, features: features))
    default: self = .tree(Program(seed: seed, features: features))
    }
  }

  /// Runs the program once, and checks the record against the model.
  public func run(features: Features = .all) async -> Verdict {
    switch self {
    case .tree(let program):
      let recorded = await program.run(features: features)
      return Verdict(
        failures: Checker.failures(of: recorded, features: features), commits: recorded.commits.count,
        deliveries: recorded.deliveries)
    case .effects(let program): return await program.run()
    case .ends(let program): return await EndsRun(program).perform()
    case .directory(let program): return await DirectoryRun(program).perform()
    }
  }

  public var simplifications: [() -> AnyProgram?] {
    switch self {
    case .tree(let program): program.simplifications.map { make in { make().map { .tree($0) } } }
    case .effects(let program): program.simplifications.map { make in { make().map { .effects($0) } } }
    case .ends(let program): program.simplifications.map { make in { make().map { .ends($0) } } }
    case .directory(let program): program.simplifications.map { make in { make().map { .directory($0) } } }
    }
  }
}

extension AnyProgram: CustomStringConvertible {
  public var description: String {
    switch self {
    case .tree(let program): "\(program)"
    case .effects(let program): "\(program)"
    case .ends(let program): "\(program)"
    case .directory(let program): "\(program)"
    }
  }
}

extension EffectProgram {
  func run() async -> AnyProgram.Verdict {
    if tasks > 0 {
      let (record, violations) = await EffectRun(self).performFreely()
      return AnyProgram.Verdict(
        failures: EffectRecordChecker.failures(of: record, self) + violations, commits: record.commits.count)
    }
    let model = EffectModel(self)
    if model.isAmbiguous { return AnyProgram.Verdict(failures: []) }
    let (phases, violations) = await EffectRun(self).perform(model.phases)
    let failures = EffectChecker.failures(expected: model.phases, actual: phases, isCarrying: isCarrying)
    return AnyProgram.Verdict(
      failures: failures + violations, commits: phases.reduce(0) { $0 + $1.commits.count }, deliveries: 0)
  }
}
