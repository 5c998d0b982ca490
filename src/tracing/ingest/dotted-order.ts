// The place of a run in its trace: `<time><run id>` for the root, each ancestor and the run itself, joined by dots.
import type { Fault } from '../../kernel/http/errors.ts'

const SEGMENT =
  /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{6})Z([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/
const MAX_DEPTH = 100

export type RunPlace = {
  trace_id: string
  /** The start of the root. */
  trace_time: string
  /** The start of the run. */
  order_time: string
  dotted_order: string
  parent_run_id: string | null
}
type Segment = { time: string; id: string }

/** Null unless the time exists. */
function parseSegment(text: string): Segment | null {
  const [, year, month, day, hour, minute, second, micros, id] = SEGMENT.exec(text) ?? []
  if (!id) return null
  const time = `${year}-${month}-${day}T${hour}:${minute}:${second}.${micros}Z`
  const date = new Date(time)
  return Number.isNaN(date.getTime()) || date.getUTCDate() !== Number(day) || year === '0000' ? null : { time, id }
}

type Placed = {
  id: string
  trace_id?: string | undefined
  parent_run_id?: string | undefined
  dotted_order: string
  loc: (string | number)[]
}

/**
 * Adds a fault for each rule that the run breaks. The place is right only if there is none. A run may begin before its
 * parent: services have clocks of their own.
 */
export function readPlace(run: Placed, faults: Fault[]): RunPlace | undefined {
  const refuse = (member: string, msg: string) => {
    faults.push({ type: 'custom', loc: [...run.loc, member], msg })
    return undefined
  }
  const dotted_order = run.dotted_order.replace(/[A-F]/g, letter => letter.toLowerCase())
  const texts = dotted_order.split('.')
  if (texts.length > MAX_DEPTH) return refuse('dotted_order', `has more than ${MAX_DEPTH} segments`)
  const segments: Segment[] = []
  for (const text of texts) {
    const segment = parseSegment(text)
    if (!segment)
      return refuse('dotted_order', 'must be segments such as 20261122T110333598001Z<run id>, joined by dots')
    segments.push(segment)
  }
  const [root, own, parent] = [segments[0]!, segments.at(-1)!, segments.at(-2)]
  if (own.id !== run.id) refuse('dotted_order', 'must end with the id of the run')
  if (run.trace_id !== undefined && root.id !== run.trace_id)
    refuse('trace_id', 'must be the id of the first run in `dotted_order`')
  if (run.parent_run_id !== undefined && run.parent_run_id !== parent?.id)
    refuse('parent_run_id', parent ? 'must be the id before the last in `dotted_order`' : 'must be absent for a root')
  if (new Set(segments.map(({ id }) => id)).size < segments.length) refuse('dotted_order', 'must name each run once')
  return {
    trace_id: root.id,
    trace_time: root.time,
    order_time: own.time,
    dotted_order,
    parent_run_id: parent?.id ?? null,
  }
}

/** The place of a run that is the root of its own trace. */
export function placeRoot(id: string, startTime: string): RunPlace {
  const [, seconds, fraction = ''] = /^([^.Z]*)(?:\.(\d+))?Z$/.exec(startTime) ?? ['', '']
  const micros = fraction.slice(0, 6).padEnd(6, '0')
  const time = `${seconds}.${micros}Z`
  return {
    trace_id: id,
    trace_time: time,
    order_time: time,
    dotted_order: `${seconds!.replace(/[-:]/g, '')}${micros}Z${id}`,
    parent_run_id: null,
  }
}
