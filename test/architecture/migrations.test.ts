// Migrations lock no table for long, and drop nothing that the previous release uses.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Releases } from '../../deploy/releases/releases.ts'
import { readMigrations } from '../../src/host/migrate.ts'
import { planMigration, splitStatements } from '../../src/host/migration-plan.ts'
import { compareVersions, parseVersion } from '../../src/protocol/versions.ts'

const ROOT = join(import.meta.dirname, '../..')
const releases = Releases.parse(JSON.parse(readFileSync(join(ROOT, 'deploy/releases/releases.json'), 'utf8')))
/** The newest release whose code is fixed. */
const newestMade = releases.find(({ commit }) => commit !== null)!.app
/** Tables that have few rows in every installation. */
const SMALL = ['roles']

const RULES: [fault: string, pattern: RegExp][] = [
  ['changes the type of a column, which rewrites the table', /^alter table .*alter column \S+ (set data )?type /],
  ['adds a column without a default that may not be null', /^alter table .*add column (?!.*default)[^,]* not null/],
  [
    'gives each row another default, which rewrites the table',
    /add column [^,]*default (gen_random|random|nextval|clock_t)/,
  ],
  [
    'adds a column with a constraint, which scans the table',
    /add column [^,]* (references|check|unique|primary key)\b/,
  ],
  ['adds a constraint that is not `not valid`', /add constraint \S+ (foreign key|check)\b(?!.* not valid)/],
  ['adds a key that is not `using index`', /add constraint \S+ (unique|primary key)\b(?! using index)/],
  ['creates an index inside of a block, which is not concurrent', /^do .*create (unique )?index/],
]
const DROP = /^drop (table|function|type|view)\b|^alter table .*\b(drop column|drop constraint|rename)\b/
const CHANGED_TABLE = /^(?:update|delete from|insert into) "?(\w+)/

function findFaults(parts: string[]): string[] {
  const created = new Set(
    [...parts.join('\n').matchAll(/create table (?:if not exists )?"?(\w+)/gi)].map(([, name]) => name),
  )
  const { inTransaction } = planMigration(parts)
  return inTransaction.flatMap(splitStatements).flatMap(statement => {
    const text = statement
      .replace(/^\s*--.*$/gm, '')
      .replace(/\s+/g, ' ')
      .trim()
      .toLowerCase()
    const table = /^alter table (?:only )?"?(\w+)/.exec(text)?.[1] ?? CHANGED_TABLE.exec(text)?.[1]
    if (table && created.has(table)) return []
    const faults = RULES.filter(([, pattern]) => pattern.test(text)).map(([fault]) => fault)
    const changed = CHANGED_TABLE.exec(text)?.[1]
    if (changed && !SMALL.includes(changed) && !/^insert into \w+ \([^)]*\) values/.test(text))
      faults.push(`changes rows of ${changed}, which may be many: write --> batches`)
    if (/alter column \S+ set not null/.test(text) && !parts.join('').includes('is not null) not valid'))
      faults.push('scans the table for nulls: add `check (… is not null) not valid` and validate it first')
    if (DROP.test(text)) faults.push(...findUse(statement))
    return faults.map(fault => `${text.slice(0, 60)}: ${fault}`)
  })
}

function findUse(statement: string): string[] {
  const since = parseVersion(/^-- Unused since (\S+)\.$/m.exec(statement)?.[1] ?? '')
  if (!since) return ['is without the comment `-- Unused since 0.X.0.`']
  return compareVersions(since, parseVersion(newestMade)!) > 0 ? [`is used by ${newestMade}`] : []
}

it('new migrations keep the rules', () => {
  const [baseline, ...migrations] = readMigrations()
  expect(baseline!.name).toBe('0000_baseline')
  for (const { name, sql } of migrations) expect([name, findFaults(sql)]).toEqual([name, []])
})

describe('the rules of migrations', () => {
  it.each([
    ['alter table deployments alter column name type varchar'],
    ['alter table deployments\n  add column note text,\n  alter column name set data type varchar'],
    ['alter table deployments add column note text not null'],
    ['alter table deployments add column note uuid default gen_random_uuid() not null'],
    ['alter table deployments add column note uuid references revisions (id)'],
    ['alter table deployments add column note text check (note <> name)'],
    ['alter table deployments add constraint named check (note <> name)'],
    ['alter table deployments add constraint one unique (note)'],
    ['alter table deployments alter column note set not null'],
    ["do $$ begin execute 'create index a on deployments (note)'; end $$"],
    ['-- All of them.\nupdate deployments set note = name'],
    ['insert into events (id) select id from deployments'],
    ['delete from log_lines where number > 9'],
    ['drop table deployments'],
    ['-- Unused since 0.999.0.\nalter table deployments drop column note'],
    ['alter table deployments rename column note to notes'],
  ])('refuse %j', sql => expect(findFaults([sql])).not.toEqual([]))

  it.each([
    ["alter table deployments\n  add column note text default 'a' not null,\n  add column more json"],
    ['alter table deployments add constraint named check (note <> name) not valid'],
    ['alter table deployments validate constraint named'],
    ['create index a on deployments (note)'],
    ['--> batches\nupdate deployments set note = name where id in (select id from deployments limit 9)'],
    ['create table notes (id int); alter table notes add constraint one unique (id); insert into notes select 1'],
    ["update roles set permissions = permissions || '{notes:read}'"],
    ['create or replace function f() returns void language sql as $$ update deployments set note = name $$'],
    ['-- Unused since 0.1.0.\nalter table deployments drop column note'],
    ['drop policy own on deployments'],
  ])('allow %j', sql => expect(findFaults([sql])).toEqual([]))
})
