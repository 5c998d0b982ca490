// The messages of faults for schemas that have no message of their own.
import type * as z from 'zod'

type Issue = z.core.$ZodRawIssue

export function describeIssue(issue: Issue): string {
  if (issue.input === undefined && issue.code !== 'custom') return 'is required'
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${TYPE_NAMES[issue.expected] ?? 'another type of value'}`
    case 'invalid_value':
      return `must be ${listChoices(issue.values.map(String))}`
    case 'invalid_format':
      return `must be ${FORMAT_NAMES[issue.format] ?? 'in another format'}`
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'too_small':
      return describeBound(issue.origin, issue.inclusive === false ? 'more than' : 'at least', Number(issue.minimum))
    case 'too_big':
      return describeBound(issue.origin, issue.inclusive === false ? 'less than' : 'at most', Number(issue.maximum))
    case 'unrecognized_keys':
      return `has unknown members: ${issue.keys.join(', ')}`
    default:
      return 'is not valid'
  }
}

const TYPE_NAMES: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
}

const FORMAT_NAMES: Record<string, string> = {
  uuid: 'a UUID',
  guid: 'a UUID',
  url: 'a URL',
  email: 'an email address',
  datetime: 'a date and time, such as 2026-01-31T12:00:00Z',
  safeint: 'a whole number',
  int32: 'a whole number',
  base64url: 'base64url text',
}

const UNITS: Record<string, [one: string, many: string]> = {
  string: ['character', 'characters'],
  array: ['item', 'items'],
  set: ['item', 'items'],
  object: ['member', 'members'],
  record: ['member', 'members'],
  map: ['member', 'members'],
}

function describeBound(origin: string, relation: string, bound: number): string {
  const unit = UNITS[origin]
  return unit ? `must have ${relation} ${bound} ${unit[bound === 1 ? 0 : 1]}` : `must be ${relation} ${bound}`
}

const listChoices = (values: string[]): string =>
  values.length === 1 ? `\`${values[0]}\`` : `one of ${values.map(value => `\`${value}\``).join(', ')}`
