/// A collection that is shown like a dictionary, and has an order.
package protocol OrderedByKeys {}

extension Keyed: OrderedByKeys {}
