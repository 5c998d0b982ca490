// Parts of a JSON Schema that say in the document what a refinement checks between members. They go into `meta()`.

type Condition = Record<string, unknown>

/** Linters forbid members that a part does not name, unless it says that others are fine. */
export const hasMembers = (members: Record<string, Condition>, required = Object.keys(members)): Condition => ({
  ...(required.length > 0 && { required }),
  properties: members,
  additionalProperties: true,
})

/** Null counts as absent, as in the schemas. */
export const hasAll = (...names: string[]): Condition =>
  hasMembers(Object.fromEntries(names.map(name => [name, { not: { type: 'null' } }])))
export const hasAnyOf = (...names: string[]): Condition => ({ anyOf: names.map(name => hasAll(name)) })
export const hasNone = (...names: string[]): Condition =>
  hasMembers(Object.fromEntries(names.map(name => [name, { type: 'null' }])), [])
export const hasOneOf = (...names: string[]): Condition => ({
  oneOf: names.map(name => all(hasAll(name), hasNone(...names.filter(other => other !== name)))),
})

export const all = (...conditions: Condition[]): Condition => ({ allOf: conditions })

/** Not a literal: an object with a member `then` could be taken for a promise. */
export const implies = (condition: Condition, rule: Condition, otherwise?: Condition): Condition =>
  Object.fromEntries([['if', condition], ['then', rule], ...(otherwise ? [['else', otherwise]] : [])])

export const isAnyOf = (member: string, ...values: unknown[]): Condition => hasMembers({ [member]: { enum: values } })
/** For a member whose default is one of the values. */
export const isAbsentOrAnyOf = (member: string, ...values: unknown[]): Condition =>
  hasMembers({ [member]: { enum: values } }, [])
