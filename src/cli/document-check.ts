// Checks documents against the JSON Schema of the installation, which is built from what validates its requests.
import { type OutputUnit, type Schema, Validator } from '@cfworker/json-schema'
import { type DocumentFault, KINDS } from '../client/apply/documents.ts'
import type { FoundDocument } from './document-files.ts'

/** Keywords that only wrap others. The faults inside of them are reported. */
const WRAPPERS = ['$ref', 'allOf', 'anyOf', 'if', 'items', 'properties', 'additionalProperties']
const MAX_FAULTS_OF_A_DOCUMENT = 20
const MAX_NAMED = 12

export function checkAgainstSchema(documents: FoundDocument[], schema: Schema): DocumentFault[] {
  const { definitions } = schema
  const validators = new Map<string, Validator>()
  const validatorOf = (kind: string) => {
    const known = validators.get(kind)
    if (known) return known
    const one = new Validator({ definitions, $ref: `#/definitions/${kind}Document` } as Schema, '7', false)
    validators.set(kind, one)
    return one
  }
  return documents.flatMap(({ value, placeOf }) => {
    const { kind, name } = (value ?? {}) as { kind?: unknown; name?: unknown }
    const document = [kind, name].filter(text => typeof text === 'string').join(' ')
    const faultAt = (path: (string | number)[], message: string): DocumentFault => ({
      ...placeOf(path),
      document,
      path: path.join('.'),
      message,
    })
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return [faultAt([], 'is not a document: it needs the members kind, name and spec')]
    if (!KINDS.some(known => known === kind)) return [faultAt(['kind'], `must be one of ${KINDS.join(', ')}`)]
    const { errors } = validatorOf(kind as string).validate(value)
    const faults = errors.filter(isLeaf).map(error => faultAt(toPath(error.instanceLocation), toMessage(error)))
    return distinct(faults).slice(0, MAX_FAULTS_OF_A_DOCUMENT)
  })
}

/** Skips the alternative null, which most members allow and a person rarely means. */
const isLeaf = ({ keyword, error }: OutputUnit): boolean =>
  !WRAPPERS.includes(keyword) && !(keyword === 'type' && error.includes('Expected "null"'))

const toPath = (location: string): (string | number)[] =>
  location
    .split('/')
    .slice(1)
    .map(part => decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~'))
    .map(part => (/^\d+$/.test(part) ? Number(part) : part))

/** Leaves out the value, which may be a misplaced secret. */
function toMessage({ keyword, error }: OutputUnit): string {
  if (keyword === 'false') return 'is not an allowed member'
  if (keyword === 'pattern') return 'does not match the required pattern'
  if (keyword === 'enum') {
    const allowed = JSON.parse(error.slice(error.indexOf('['), error.lastIndexOf(']') + 1)) as unknown[]
    const more = allowed.length > MAX_NAMED ? `, and ${allowed.length - MAX_NAMED} more` : ''
    return `must be one of ${allowed.slice(0, MAX_NAMED).join(', ')}${more}`
  }
  if (keyword === 'required') return `needs the member ${/"([^"]*)"/.exec(error)?.[1]}`
  if (keyword === 'type') return `must be of the type ${/Expected "(\w+)"/.exec(error)?.[1]}`
  if (keyword === 'const') return 'has the wrong value'
  return error.replace(/\.$/, '').replace(/^[A-Z]/, letter => letter.toLowerCase())
}

const distinct = (faults: DocumentFault[]): DocumentFault[] => [
  ...new Map(faults.map(fault => [`${fault.path} ${fault.message}`, fault])).values(),
]
