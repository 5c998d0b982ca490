// Reads runs from JSON: one of them, or a batch.
import type { Fault } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import type { RawBody } from '../../kernel/http/raw-body.ts'
import { sliceArray } from '../../kernel/json/json-slices.ts'
import type { RunOperation } from '../store/store.ts'
import { MAX_OPERATIONS } from './ingestion.schema.ts'
import {
  checkKind,
  decodeJson,
  type MemberTexts,
  type ReadRuns,
  readOperation,
  sliceMembers,
  TOO_MANY_OPERATIONS,
} from './read-operation.ts'

/** A run, or with the id of its path a patch. */
export function readRunBody(body: RawBody, kind: RunOperation['kind'], id?: string): ReadRuns {
  const faults: Fault[] = []
  const members = readBody(body, faults)
  const operation = readOperation({ kind, id, members, loc: ['body'] }, faults)
  return { operations: operation ? [operation] : [], faults }
}

export function readBatchBody(body: RawBody): ReadRuns {
  const faults: Fault[] = []
  const operations: RunOperation[] = []
  const lists = readBody(body, faults)
  let count = 0
  for (const kind of ['post', 'patch'] as const) {
    const text = lists.get(kind) ?? 'null'
    if (text === 'null' || !checkKind('list', text, ['body', kind], faults)) continue
    const items = sliceArray(text, MAX_OPERATIONS + 1)
    count += items.length
    if (count > MAX_OPERATIONS) {
      faults.push({ type: 'too_big', loc: ['body'], msg: TOO_MANY_OPERATIONS })
      break
    }
    for (const [i, item] of items.entries()) {
      const loc = ['body', kind, i]
      if (!checkKind('object', item, loc, faults)) continue
      const operation = readOperation({ kind, members: sliceMembers(item, loc, faults), loc }, faults)
      if (operation) operations.push(operation)
    }
  }
  return { operations, faults }
}

function readBody({ bytes, values }: RawBody, faults: Fault[]): MemberTexts {
  const text = decodeJson(bytes, values, ['body'], faults)
  if (text === null || !checkKind('object', text, ['body'], faults)) throw invalidRequest(faults)
  return sliceMembers(text, ['body'], faults)
}
