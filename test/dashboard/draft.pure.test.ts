// Drafts of changes to a deployment: the patch that they make.
import { describe, expect, it } from 'vitest'
import { ApiError } from '../../src/client/errors.ts'
import { faultAt, listFaults } from '../../src/dashboard/api/faults.ts'
import type { Deployment } from '../../src/dashboard/format/state.ts'
import { applyDraft, leaveOutSecrets } from '../../src/dashboard/screens/deployments/change-requests.ts'
import {
  countEdits,
  type Draft,
  settingOf,
  toPatch,
  withSetting,
} from '../../src/dashboard/screens/deployments/draft.ts'
import { describeApply, describeEffect, listRows } from '../../src/dashboard/screens/deployments/plan-words.ts'
import {
  editsOfText,
  listVariables,
  MASK,
  readVariables,
  type VariableEdit,
  withImported,
  withStoredEdit,
} from '../../src/dashboard/screens/deployments/variable-edits.ts'

const EMPTY: Draft = { settings: new Map(), variables: [] }
const SPEC = 'source_config.resource_spec'
const secretsOf = (...names: string[]) => names.map(name => ({ name, value: MASK }))
const deployment = (over: object = {}, config: object = {}) =>
  ({
    id: 'shop',
    name: 'shop',
    source: 'githost',
    secrets: secretsOf('KEY', 'MODE'),
    secret_references: null,
    source_config: { resource_spec: null, custom_url: null, build_command: null, build_on_push: true, ...config },
    source_revision_config: { repo_ref: 'main' },
    ...over,
  }) as unknown as Deployment
const draftOf = (one: Deployment, values: Record<string, string>): Draft =>
  Object.entries(values).reduce((draft, [path, text]) => withSetting(draft, one, path, text), EMPTY)
const withVariables = (variables: readonly VariableEdit[]): Draft => ({ ...EMPTY, variables })

describe('a draft of settings', () => {
  it('sends what is edited, and keeps what others have set beside it', () => {
    const draft = draftOf(deployment(), { [`${SPEC}.min_scale`]: '2', 'source_config.build_on_push': 'false' })
    const now = deployment({}, { resource_spec: { max_scale: 5, labels: { team: 'a' } } })
    expect(toPatch(now, draft).body).toEqual({
      source_config: { resource_spec: { min_scale: 2 }, build_on_push: false },
    })
  })

  it('forgets an edit that leads back to the stored value', () => {
    const one = deployment()
    const draft = withSetting(
      draftOf(one, { 'source_revision_config.repo_ref': 'next' }),
      one,
      'source_revision_config.repo_ref',
      'main',
    )
    expect(countEdits(one, draft)).toBe(0)
  })

  it.each([
    ['a member that can be cleared', {}, { build_command: 'make' }, 'source_config.build_command', ['build_command']],
    ['a resource', {}, { resource_spec: { cpu: 1 } }, `${SPEC}.cpu`, ['resource_spec.cpu']],
    ['a custom URL', {}, { custom_url: 'shop.test' }, 'source_config.custom_url', ['custom_url']],
  ])('clears %s whose field is emptied', (_, over, config, path, clear) => {
    const one = deployment(over, config)
    expect(toPatch(one, draftOf(one, { [path]: '' }))).toEqual({ query: { clear }, body: {} })
  })

  it('shows what is on by default as on, and switches it off', () => {
    const one = deployment()
    const path = 'source_config.tracing'
    expect(settingOf(draftOf(one, {}), one, path)).toBe('true')
    expect(countEdits(one, draftOf(one, { [path]: 'true' }))).toBe(0)
    expect(toPatch(one, draftOf(one, { [path]: 'false' })).body).toEqual({ source_config: { tracing: false } })
  })

  it('sends what is no number as it was written', () => {
    const one = deployment({}, { resource_spec: { cpu: 1 } })
    const wrong = draftOf(one, { [`${SPEC}.cpu`]: 'two', [`${SPEC}.labels`]: '{"a": 1' })
    expect(toPatch(one, wrong).body).toEqual({ source_config: { resource_spec: { cpu: 'two', labels: '{"a": 1' } } })
  })
})

describe('a draft of variables', () => {
  const names = (patch: ReturnType<typeof toPatch>) => patch.body.secrets?.map(({ name, value }) => `${name}=${value}`)

  it('keeps what is not edited by its mask, also what others add meanwhile', () => {
    const draft = withVariables(withStoredEdit([], 'KEY', 'new'))
    expect(names(toPatch(deployment({ secrets: secretsOf('KEY', 'MODE', 'THEIRS') }), draft))).toEqual([
      `MODE=${MASK}`,
      `THEIRS=${MASK}`,
      'KEY=new',
    ])
  })

  it('clears all when the last one is removed, because an empty list would keep them', () => {
    const draft = withVariables(withStoredEdit(withStoredEdit([], 'KEY', undefined), 'MODE', undefined))
    expect(toPatch(deployment(), draft)).toEqual({ query: { clear: ['secrets'] }, body: {} })
    expect(countEdits(deployment({ secrets: [] }), draft), 'others have removed them').toBe(0)
  })

  it('adds and replaces what a file names', () => {
    const first = withImported(
      deployment(),
      [],
      new Map([
        ['KEY', '1'],
        ['ADDED', '2'],
      ]),
    )
    const second = withImported(deployment(), first, new Map([['ADDED', '3']]))
    expect(listVariables(deployment(), second).map(({ name, value }) => [name, value])).toEqual([
      ['MODE', MASK],
      ['KEY', '1'],
      ['ADDED', '3'],
    ])
  })

  it('is what its text says: a mask keeps, another value replaces, a line that is gone removes', () => {
    const edits = editsOfText(['KEY', 'MODE', 'OLD'], readVariables(`KEY=${MASK}\nMODE=test\n__proto__=x`))
    expect(edits.map(({ name, value, isNew }) => [name, value, isNew])).toEqual([
      ['MODE', 'test', false],
      ['OLD', undefined, false],
      ['__proto__', 'x', true],
    ])
  })
})

describe('a plan', () => {
  const plan = {
    creates_revision: true,
    reasons: [],
    warnings: [],
    plan_digest: '',
    changes: [
      { path: SPEC, before: { cpu: 1, max_scale: 2 }, after: { cpu: 2, max_scale: 2 }, effect: 'revision' as const },
      { path: 'secrets', before: ['A'], after: [], effect: 'revision' as const },
    ],
    secrets: [{ name: 'A', change: 'removed' as const }],
  }
  const revision = (number: number, status: 'DEPLOYED' | 'BUILDING' | 'QUEUED') => ({
    id: `r${number}`,
    number,
    status,
  })

  it('has one row for each member that differs, and secrets by name', () => {
    expect(listRows(plan).map(({ path, before, after, secret }) => [path, before, after, secret])).toEqual([
      [`${SPEC}.cpu`, 1, 2, undefined],
      ['secrets.A', null, null, 'removed'],
    ])
  })

  it('says which revision it creates, what that waits for, and what serves until then', () => {
    const revisions = [revision(43, 'QUEUED'), revision(42, 'BUILDING'), revision(41, 'DEPLOYED')]
    expect(describeEffect(plan, revisions, 'r41')).toBe(
      'Creates r44, which waits for r42. r43, which waits too, is skipped. r41 serves until it is healthy.',
    )
    expect(describeApply('Apply', plan, revisions)).toBe('Apply: create r44')
  })
})

it('a fault is shown at the field of its member, and one inside of it names its place', () => {
  const error = new ApiError(
    { status: 422, headers: new Headers() },
    {
      code: 'invalid_request',
      detail: '',
      errors: [
        { type: 'a', loc: ['body', 'source_config', 'custom_url'], msg: 'must be a host' },
        { type: 'b', loc: ['body', 'source_config', 'resource_spec', 'volumes', 0, 'name'], msg: 'is required' },
      ],
    },
  )
  const faults = listFaults(error)
  expect(faultAt(faults, 'source_config.custom_url')).toBe('must be a host')
  expect(faultAt(faults, `${SPEC}.volumes`)).toBe('`0.name` is required')
  expect(faultAt(faults, `${SPEC}.vol`)).toBe(undefined)
})

it('a command that is copied has no value of a secret', () => {
  const one = deployment()
  const made = applyDraft(one, withVariables(withStoredEdit([], 'KEY', 'hush'))).request(one)
  const { request, names } = leaveOutSecrets(made)
  expect([names, JSON.stringify(request)]).toEqual([['KEY'], expect.not.stringContaining('hush')])
  expect(made.options.body, 'what is sent has it').toMatchObject({
    secrets: expect.arrayContaining([{ name: 'KEY', value: 'hush' }]),
  })
})
