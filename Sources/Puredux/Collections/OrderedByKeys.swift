/// An ordered collection whose mirror is that of a dictionary.
package protocol OrderedByKeys {}

extension Keyed: OrderedByKeys {}
