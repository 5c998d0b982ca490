// A job that a model sorts, without its calls: every call is answered by a function, and the plan leads to the next.
import { describe, expect, it } from 'vitest'
import type { AttributeSchemas } from '../../../src/tracing/insights/attributes.schema.ts'
import { JobFault } from '../../../src/tracing/insights/job-fault.ts'
import { SavedRequest } from '../../../src/tracing/insights/jobs.schema.ts'
import { type PlannedJob, planJob } from '../../../src/tracing/insights/model-plan.ts'
import type { PlannedCall, Step, Steps } from '../../../src/tracing/insights/model-script.ts'
import { UnusableAnswer } from '../../../src/tracing/insights/question.ts'

const facts = { latency: 1, has_error: false, tokens: 0, cost: 0, feedback: {} }
const idOf = (i: number) => `run-${String(i).padStart(4, '0')}`
const runsOf = (n: number) => Array.from({ length: n }, (_, i) => idOf(i))
const numberOf = (text: string) => Number(/\d+/.exec(text)![0])

type Script = {
  summary?: (run: string) => object | 'unusable'
  answer?: (call: Extract<PlannedCall, { run?: undefined }>, items: { n: number; summary?: string }[]) => unknown
}

/** The lines of the last list in a question. */
const itemsOf = (content: string) =>
  [...content.matchAll(/^\{"n":.*\}$/gm)].map(([line]) => JSON.parse(line) as { n: number; summary?: string })

/** Summaries say their number, and categories are `even` and `odd`. */
const usual = {
  summary: (run: string) => ({ summary: `about ${numberOf(run)}`, category: 0, attributes: {}, facts }),
  answer: ({ question }: Extract<PlannedCall, { run?: undefined }>, items: { n: number; summary?: string }[]) => {
    switch (question.name) {
      case 'themes':
      case 'merge':
        return { categories: ['odd', 'even'].map(name => ({ name, description: `${name} ones` })) }
      case 'assignments':
        return {
          assignments: items.map(({ n, summary }) => ({ n, category: numberOf(summary!) % 2 === 1 ? 1 : 2 })),
        }
      case 'groups':
        return { groups: [{ name: 'numbers', description: 'all', members: items.map(({ n }) => n) }] }
      default:
        return { title: 'Numbers', key_points: ['They are many.'], highlighted_traces: [{ n: 1, reason: 'first' }] }
    }
  },
}

function play(job: Partial<PlannedJob['request']>, runs: string[], script: Script = {}) {
  const steps: Steps = new Map()
  const keys: string[] = []
  const { summary, answer } = { ...usual, ...script }
  const take = (call: PlannedCall): Step => {
    if (call.run !== undefined) {
      const given = summary(call.run)
      return given === 'unusable'
        ? { state: 'failed', answer: '?', fault: 'nonsense' }
        : { state: 'answered', answer: given }
    }
    const given = answer(call, itemsOf(call.question.content))
    try {
      return { state: 'answered', answer: call.question.read(given) }
    } catch (error) {
      if (!(error instanceof UnusableAnswer)) throw error
      return { state: 'failed', answer: JSON.stringify(given), fault: error.message }
    }
  }
  for (let turn = 0; turn < 50; turn++) {
    const plan = planJob({ id: 'job', request: job }, runs, steps)
    if ('result' in plan) return { result: plan.result, keys, turns: turn }
    expect(plan.calls.length).toBeGreaterThan(0)
    expect(plan.progress.done).toBeLessThan(plan.progress.total)
    for (const call of plan.calls) {
      expect(steps.has(call.key)).toBe(false)
      keys.push(call.key)
      steps.set(call.key, take(call))
    }
  }
  throw new Error('no end')
}

const shapeOf = ({ clusters }: ReturnType<typeof play>['result']) =>
  clusters.map(({ level, name, stats }) => [level, name, stats.num_runs])

describe('a job', () => {
  it('makes clusters from the finest level up, and a report', () => {
    const { result, keys } = play({ hierarchy: [2, 1] }, runsOf(5))
    expect(keys.slice(5)).toEqual(['themes/all/1', 'assign/all/1', 'group/all/1', 'report'])
    expect(shapeOf(result)).toEqual([
      [1, 'numbers', 5],
      [0, 'even', 3],
      [0, 'odd', 2],
    ])
    const [top, even] = result.clusters
    expect(even!.parent_id).toBe(top!.id)
    expect(result.runs[0]).toMatchObject({ run_id: idOf(0), cluster_id: even!.id, is_excluded: false })
    expect(result.report).toMatchObject({
      title: 'Numbers',
      highlighted_traces: [{ run_id: idOf(0), cluster_id: even!.id, cluster_name: 'even', rank: 1 }],
    })
    expect(result.categories).toEqual({ numbers: 'all' })
  })

  it('leaves categories to later jobs that a config takes', () => {
    const names = Array.from({ length: 14 }, (_, i) => (i === 0 ? '__proto__' : `c${i}`))
    const answer: Script['answer'] = (call, items) =>
      call.question.name === 'themes'
        ? { categories: names.map(name => ({ name, description: 'd' })) }
        : call.question.name === 'assignments'
          ? { assignments: items.map(({ n }) => ({ n, category: n % 15 })) }
          : usual.answer(call, items)
    const { result } = play({ hierarchy: [14] }, runsOf(59), { answer })
    expect(result.clusters.map(({ name }) => name)).toEqual(expect.arrayContaining(['Other', ...names]))
    expect(SavedRequest.parse({ partitions: result.categories }).partitions).toEqual(result.categories)
    expect(Object.keys(result.categories)).toEqual(names.slice(1, 11))
  })

  it('ends the same after it was played from any point', () => {
    expect(play({ hierarchy: [2, 1] }, runsOf(5)).result).toEqual(play({ hierarchy: [2, 1] }, runsOf(5)).result)
  })

  it.each([
    ['one trace', 1, {}, 1],
    ['no hierarchy', 200, {}, 3 + 3],
    ['a thousand traces', 1000, {}, 40],
    ['ten partitions', 1000, { partitions: Object.fromEntries(runsOf(10).map(name => [name, ''])) }, 60],
  ] as const)('with %s asks few questions besides the summaries', (_, n, request, most) => {
    const summary = (run: string) => ({ ...usual.summary(run), category: (numberOf(run) % 10) + 1 })
    const { keys } = play(request, runsOf(n), { summary })
    expect(keys.filter(key => key.startsWith('summary/'))).toHaveLength(n)
    expect(keys.length - n).toBeLessThanOrEqual(Math.max(most, 10))
  })

  it('has given categories as its top level, and others under Other', () => {
    const partitions = { billing: 'about money', unused: 'about nothing' }
    const summary = (run: string) => ({ ...usual.summary(run), category: numberOf(run) < 4 ? 1 : 0 })
    const { result } = play({ hierarchy: [4, 9], partitions }, runsOf(6), { summary })
    expect(shapeOf(result)).toEqual([
      [1, 'billing', 4],
      [0, 'odd', 2],
      [0, 'even', 2],
      [1, 'Other', 2],
      [0, 'odd', 2],
    ])
  })

  it('with one level and given categories has no other clusters', () => {
    const summary = (run: string) => ({ ...usual.summary(run), category: 1 })
    const { result, keys } = play({ hierarchy: [3], partitions: { all: '' } }, runsOf(3), { summary })
    expect(shapeOf(result)).toEqual([[0, 'all', 3]])
    expect(keys.slice(3)).toEqual(['report'])
  })

  it('drops runs without an attribute that it is filtered by', () => {
    const attribute_schemas: AttributeSchemas = { relevant: { type: 'boolean', filter_by: true } }
    const relevant = (run: string) => [true, false, null][numberOf(run) % 3]!
    const summary = (run: string) => ({ ...usual.summary(run), attributes: { relevant: relevant(run) } })
    const { result } = play({ hierarchy: [2], attribute_schemas }, runsOf(9), { summary })
    expect(result.runs.map(({ is_excluded }) => is_excluded)).toEqual(runsOf(9).map(run => relevant(run) !== true))
    expect(result.clusters.reduce((sum, { stats }) => sum + stats.num_runs, 0)).toBe(3)
    const none = { summary: (run: string) => ({ ...usual.summary(run), attributes: { relevant: false } }) }
    expect(() => play({ attribute_schemas }, runsOf(3), none)).toThrow(JobFault)
  })

  it('goes on without runs that are gone, and ends if all of them are', () => {
    const summary = (run: string) => (numberOf(run) === 1 ? { is_gone: true } : usual.summary(run))
    expect(play({}, runsOf(3), { summary }).result.runs).toHaveLength(2)
    expect(() => play({}, runsOf(3), { summary: () => ({ is_gone: true }) })).toThrow(JobFault)
  })

  it('asks again after an answer that does not fit, and then ends', () => {
    let wrong = 1
    const answer: Script['answer'] = (call, items) =>
      call.question.name === 'themes' && wrong-- > 0 ? { nonsense: true } : usual.answer(call, items)
    expect(play({}, runsOf(3), { answer }).keys).toContain('themes/all/1/repair')
    wrong = 2
    expect(() => play({}, runsOf(3), { answer })).toThrow(JobFault)
  })

  it('goes on without the few summaries that no model could make', () => {
    const summary = (run: string) => (numberOf(run) < 2 ? 'unusable' : usual.summary(run))
    const { result, keys } = play({}, runsOf(20), { summary })
    expect(result.runs).toHaveLength(18)
    expect(keys.filter(key => key.endsWith('/repair'))).toHaveLength(2)
    expect(() => play({}, runsOf(10), { summary })).toThrow(JobFault)
  })

  it('takes no number of a model that it was not asked about', () => {
    const answer: Script['answer'] = (call, items) => {
      if (call.question.name === 'assignments')
        return {
          assignments: [
            { n: 99, category: 1 },
            { n: 1, category: 77 },
            { n: -1, category: 1 },
            ...items.map(({ n }) => ({ n, category: 1 })),
            { n: 2, category: 2 },
          ],
        }
      if (call.question.name === 'report')
        return {
          title: 'T\u202e\u0000\n<b>x</b>',
          key_points: ['a'.repeat(10_000), ''],
          highlighted_traces: [0, 1.5, 1e9, 1, 1, 'x'].map(n => ({ n: typeof n === 'string' ? 2 : n, reason: 'r' })),
        }
      return usual.answer(call, items)
    }
    const { result } = play({ hierarchy: [2] }, runsOf(3), { answer })
    expect(shapeOf(result)).toEqual([[0, 'odd', 3]])
    expect(result.report.highlighted_traces.map(({ run_id }) => run_id)).toEqual([idOf(0), idOf(1)])
    expect(result.report.title).toBe('T <b>x</b>')
    expect(result.report.key_points).toHaveLength(1)
    expect(result.report.key_points[0]!.length).toBeLessThanOrEqual(500)
  })
})
