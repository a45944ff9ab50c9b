import Puredux

func escapingNext() {
  _ = Middleware<Cart, CartAction> { action, context, next in
    // error: escaping closure captures non-escaping value
    // error: passing closure as a 'sending' parameter risks causing data races between code in the current task and
    //   concurrent execution of the closure [#SendingClosureRisksDataRace]
    Task { next(action) }
  }
}
