import { describe, expect, it } from 'vitest'
import type * as z from 'zod'
import { DeploymentQuery, RevisionQuery } from '../../../src/hosting/deployments/schema.ts'
import { deploymentStatuses, revisionStatuses } from '../../../src/protocol/parts.schema.ts'

const ID = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const faults = (schema: z.ZodType, value: unknown) =>
  schema.safeParse(value).error?.issues.map(issue => issue.path.join('.')) ?? []
const repeatId = (count: number) => Array(count).fill(ID).join(',')

describe('the query of the list of deployments', () => {
  it.each([
    ['limit', { '1': 1, '100': 100 }, ['0', '101', 'x', '1.5', '']],
    ['offset', { '0': 0, '999': 999 }, ['-1', 'x', '']],
    ['name', { a: 'a', '': undefined }, []],
    ['name_contains', { a: 'a', '%_\\': '%_\\', '': undefined }, []],
    [
      'status',
      {
        READY: ['READY'],
        'READY,UNKNOWN': ['READY', 'UNKNOWN'],
        '': undefined,
        [deploymentStatuses.join()]: deploymentStatuses,
        'ready,DEPLOYED': ['ready', 'DEPLOYED'],
      },
      ['READY,'.repeat(20)],
    ],
    ['remote_reconciled', { true: true, false: false, '': undefined }, ['1', 'yes', 'null', 'true,false']],
    [
      'tag_value_ids',
      { [ID]: [ID], [`${ID},${ID.toUpperCase()}`]: [ID, ID], '': undefined, [repeatId(100)]: repeatId(100).split(',') },
      ['x', `${ID},`, ',', repeatId(101)],
    ],
    ['image_version', { '1.2': '1.2', '': undefined }, []],
    ['deployment_type', { dev_free: 'dev_free', dev: 'dev', prod: 'prod', '': undefined }, ['free', 'dev,prod']],
    [
      'deployment_ids',
      { [ID]: [ID], '': undefined, [repeatId(100)]: repeatId(100).split(',') },
      ['x', `${ID} `, repeatId(101)],
    ],
  ] as [keyof DeploymentQuery, Record<string, unknown>, string[]][])(
    'has the optional parameter %s',
    (name, good, bad) => {
      for (const [text, value] of Object.entries(good))
        expect(DeploymentQuery.parse({ [name]: text })[name]).toEqual(value)
      for (const text of bad)
        expect(faults(DeploymentQuery, { [name]: text }).map(path => path.split('.')[0])).toContain(name)
      expect(faults(DeploymentQuery, { [name]: undefined })).toEqual([])
    },
  )

  it('reports the index of every invalid item of a list', () => {
    expect(faults(DeploymentQuery, { tag_value_ids: `x,${ID},y`, deployment_ids: `${ID},z` })).toEqual([
      'tag_value_ids.0',
      'tag_value_ids.2',
      'deployment_ids.1',
    ])
  })
})

describe('the query of the list of revisions', () => {
  it('has the statuses of revisions, not those of deployments', () => {
    expect(RevisionQuery.parse({ status: revisionStatuses.join() }).status).toEqual(revisionStatuses)
    expect(RevisionQuery.parse({ status: 'READY' }).status).toEqual(['READY'])
    expect(RevisionQuery.parse({}).limit).toBe(20)
  })
})
