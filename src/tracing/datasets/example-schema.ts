// The JSON Schemas of a dataset: checked when they are set, and applied to examples when those are written.
import { type Fault, fail } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { ValueBudget } from '../../kernel/limits/value-budget.ts'

/** Texts were checked when they arrived. Those of runs are the deepest. */
const MAX_DEPTH = 512

const DEFINITIONS = ['inputs_schema_definition', 'outputs_schema_definition'] as const
type Definition = Record<string, unknown> | null | undefined
export type SchemaDefinitions = { [Name in (typeof DEFINITIONS)[number]]?: Definition }

export async function requireUsableSchemas(definitions: SchemaDefinitions): Promise<void> {
  if (!DEFINITIONS.some(name => definitions[name])) return
  const { findSchemaFaults } = await import('./json-schema.ts')
  const faults: Fault[] = DEFINITIONS.flatMap(name =>
    findSchemaFaults(definitions[name] ?? {}).map(({ path, msg }) => ({
      type: 'schema_invalid',
      loc: ['body', name, ...path],
      msg,
    })),
  )
  if (faults.length > 0) throw invalidRequest(faults)
}

/** `loc` is the place of the texts in the request. An absent text is not compared. */
export type CheckedExample = {
  inputs?: string | undefined
  outputs?: string | undefined
  loc: { inputs: Path; outputs: Path }
}
type Path = (string | number)[]

/** Throws all mismatches: one for each text. */
export async function requireMatchingExamples(
  definitions: SchemaDefinitions,
  examples: CheckedExample[],
): Promise<void> {
  const { findMismatch, newBudget, TooManySteps } = await import('./json-schema.ts')
  const budget = newBudget()
  const values = new ValueBudget()
  const faults: Fault[] = []
  const check = (definition: Definition, text: string | undefined, loc: Path) => {
    if (!definition || text === undefined) return
    if (values.checkBeforeParse(text, MAX_DEPTH)) throw fail('schema_too_costly')
    const mismatch = findMismatch(definition, JSON.parse(text), budget)
    if (mismatch) faults.push({ type: 'schema_mismatch', loc: [...loc, ...mismatch.path], msg: mismatch.msg })
  }
  try {
    for (const { inputs, outputs, loc } of examples) {
      check(definitions.inputs_schema_definition, inputs, loc.inputs)
      check(definitions.outputs_schema_definition, outputs, loc.outputs)
    }
  } catch (error) {
    throw error instanceof TooManySteps ? fail('schema_too_costly') : error
  }
  if (faults.length > 0) throw invalidRequest(faults)
}
