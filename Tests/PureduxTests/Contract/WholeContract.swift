import PureduxTestSupport
import PureduxTesting
import Testing

/// Runs the suite for users' own stores against every kind of store in this library.
@Suite(.timeLimit(.minutes(15))) struct WholeContract {
  @Test(arguments: Kind.inMemory) func `every kind keeps the contract`(kind: Kind) async {
    await checkDeliveryContract(
      of: {
        let subject = Subject(kind)
        return StoreUnderTest(subject.store) { await subject.root.shutdown() }
      }, given: [1, 2, 3, 4, 5], within: .seconds(280)
    ) { state, action in
      state.root.enter(action)
      for index in 0..<kind.depth {
        if state.locals.count <= index { state.locals.append(Ledger()) }
        state.locals[index] = state.root
      }
    }
  }
}
