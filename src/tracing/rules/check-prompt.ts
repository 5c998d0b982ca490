// Checks that a prompt can be filled in from a run, and that its answer can become feedback (pure).
import type { Fault } from '../../kernel/http/errors.ts'
import { MAX_KEY_LENGTH } from '../feedback/feedback.schema.ts'
import { listVariables, parseTemplate, TemplateError } from '../runs/prompt-template.ts'
import { MAX_PROMPT_LENGTH, type Structured } from './evaluators.schema.ts'
import { isRunPath, MEMBER_NAMES, pathOf } from './run-variables.ts'
import { kindOf, listKeys } from './verdicts.ts'

const MAX_PROPERTIES = 20
const MAX_SCHEMA_LENGTH = 10_000
const MAX_FAULTS = 20
const BEGINNINGS = MEMBER_NAMES.join(', ')

type Found = { path: (string | number)[]; msg: string }

export const listPromptFaults = (judge: Structured, loc: (string | number)[]): Fault[] =>
  [...checkTemplates(judge), ...checkMapping(judge), ...checkSchema(judge.schema)]
    .slice(0, MAX_FAULTS)
    .map(({ path, msg }) => ({ type: 'custom', loc: [...loc, ...path], msg }))

function checkTemplates({ prompt, template_format, variable_mapping }: Structured): Found[] {
  const faults: Found[] = []
  let variables = 0
  for (const [i, [, text]] of prompt.entries()) {
    try {
      const { required, sections } = listVariables(parseTemplate(text, template_format))
      const names = [...required, ...sections]
      variables += names.length
      const unknown = names.filter(name => pathOf(name, variable_mapping) === undefined)
      if (unknown.length === 0) continue
      const about = unknown.slice(0, 5).join(', ')
      faults.push({
        path: ['prompt', i, 1],
        msg: `has unknown variables: ${about}. Add them to \`variable_mapping\`, or use ${BEGINNINGS}`,
      })
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error
      faults.push({ path: ['prompt', i, 1], msg: error.message })
    }
  }
  if (prompt.reduce((length, [, text]) => length + text.length, 0) > MAX_PROMPT_LENGTH)
    faults.push({ path: ['prompt'], msg: `must have at most ${MAX_PROMPT_LENGTH} characters together` })
  const example = template_format === 'mustache' ? '{{output}}' : '{output}'
  if (variables === 0 && faults.length === 0)
    faults.push({ path: ['prompt'], msg: `has no variable, so it is the same for every run. Use ${example}` })
  return faults
}

const checkMapping = ({ variable_mapping }: Structured): Found[] =>
  Object.entries(variable_mapping)
    .filter(([, path]) => !isRunPath(path))
    .map(([name]) => ({ path: ['variable_mapping', name], msg: `must begin with one of ${BEGINNINGS}` }))

function checkSchema(schema: Record<string, unknown>): Found[] {
  const text = JSON.stringify(schema)
  const { type = 'object', properties } = schema
  if (text.length > MAX_SCHEMA_LENGTH || /\\u(?:0000|d[89a-f])/i.test(text))
    return [
      {
        path: ['schema'],
        msg: `must have at most ${MAX_SCHEMA_LENGTH} characters, and no NUL characters and lone surrogates`,
      },
    ]
  const place = ['schema', 'properties']
  if (type !== 'object' || typeof properties !== 'object' || properties === null)
    return [{ path: place, msg: 'must have what the answer says, property by property' }]
  const named = Object.entries(properties)
  const faults = named.flatMap(([name, property]): Found[] => {
    if (kindOf(property) === undefined)
      return [{ path: [...place, name], msg: 'must be of the type boolean, number, integer or string' }]
    const isKey = name !== '' && name.length <= MAX_KEY_LENGTH
    return isKey ? [] : [{ path: place, msg: `must have names of 1 to ${MAX_KEY_LENGTH} characters` }]
  })
  if (listKeys(schema).length === 0 || named.length > MAX_PROPERTIES)
    faults.push({ path: place, msg: `must be 1 to ${MAX_PROPERTIES}, of which one is more than a comment` })
  return faults
}
