// Owns made-up tenants and deployments, as many as asked: the same ones every time, so that a second run adds only what is missing.
import pg from 'pg'
import { bootstrap } from '../access/bootstrap.ts'
import { connect } from '../kernel/db.ts'
import { openDatabase } from './database-connection.ts'

type SeedOptions = { tenants: number; deployments: number; onProgress?: (done: number) => void }
export type SeedResult = {
  organization_id: string
  /** That with a tenth of all deployments, and a key of it. */
  tenant_id: string
  api_key: string
  counts: { workspaces: number; deployments: number; revisions: number; largest: number }
}

const BATCH = 20_000
/** So many connections fill at once: what is made up costs processor time, not disk. */
const CONNECTIONS = 2
const ORGANIZATION = 'Seed'
const BIG_WORKSPACE = 'Seed 1'

export async function seed(
  databaseUrl: string,
  { tenants, deployments, onProgress }: SeedOptions,
): Promise<SeedResult> {
  const key = await createBigTenant(databaseUrl)
  const clients = Array.from({ length: CONNECTIONS }, () => new pg.Client({ connectionString: databaseUrl }))
  const client = clients[0]!
  try {
    await Promise.all(clients.map(openConnection))
    const organization = key.organization_id
    await client.query(WORKSPACES, [organization, tenants, BIG_WORKSPACE])
    await client.query(INTEGRATIONS, [organization])
    await client.query(LISTENERS, [organization])
    await client.query(TAG_KEYS, [organization])
    await client.query(TAG_VALUES, [organization])
    // Sorted by number, the workspaces are an array that a deployment picks from.
    const { rows } = await client.query(
      `select array_agg(id order by length(display_name), display_name) as ids from workspaces
        where organization_id = $1 and display_name like 'Seed %'`,
      [organization],
    )
    const workspaces = rows[0].ids.slice(0, tenants)
    let [next, done] = [1, 0]
    const fill = async (hand: pg.Client) => {
      while (next <= deployments) {
        const [from, to] = [next, Math.min(next + BATCH - 1, deployments)]
        next = to + 1
        await hand.query(DEPLOYMENTS, [organization, workspaces, from, to])
        done += to - from + 1
        onProgress?.(done)
      }
    }
    await Promise.all(clients.map(fill))
    await client.query('reset role')
    await client.query('vacuum (analyze) workspaces, tag_keys, tag_values, deployments, revisions, projects')
    await client.query('set role slipway_system')
    const counted = await client.query(COUNTS, [organization, key.tenant_id])
    return { ...key, counts: counted.rows[0] }
  } finally {
    await Promise.all(clients.map(one => one.end()))
  }
}

async function openConnection(client: pg.Client): Promise<void> {
  await client.connect()
  // Rows whose commit is not written yet are not visible to all, and a vacuum passes them over.
  await client.query('set synchronous_commit = on')
  await client.query('set role slipway_system')
}

async function createBigTenant(databaseUrl: string) {
  const { database, via, close } = openDatabase({ url: databaseUrl }, { poolSize: 1 })
  try {
    return await bootstrap(connect({ database }, via), { organization: ORGANIZATION, workspace: BIG_WORKSPACE })
  } finally {
    await close()
  }
}

const WORKSPACES = `
  insert into workspaces (organization_id, display_name)
  select $1::uuid, 'Seed ' || n from generate_series(1, $2::integer) n where 'Seed ' || n <> $3
  on conflict do nothing`

/** An id that follows from what it is of, within the organisation. */
const derivedId = (what: string) => `md5($1::uuid || ':' || ${what})::uuid`
const integrationId = (tenant: string) => derivedId(`${tenant} || ':integration'`)
const tagId = (tenant: string, tag: string) => derivedId(`${tenant} || ':' || ${tag}`)

/** Of an App that exists nowhere. */
const INTEGRATIONS = `
  insert into integrations (id, organization_id, tenant_id, host, base_url, installation_id, account_id, name)
  select ${integrationId('w.id')}, w.organization_id, w.id, 'github', 'https://github.com', 'seed ' || w.id, '1', 'acme'
  from workspaces w where w.organization_id = $1 and w.display_name like 'Seed %'
  on conflict do nothing`

/** Where the installation's own listeners serve, its agents would try to run what is made up: it goes to one without an agent. */
const HAS_PLATFORM_LISTENER = 'exists (select from listeners where tenant_id is null)'
const listenerId = (tenant: string) => derivedId(`${tenant} || ':listener'`)
const LISTENERS = `
  insert into listeners (id, organization_id, tenant_id, compute_type, compute_id, compute_config)
  select ${listenerId('w.id')}, w.organization_id, w.id, 'local', 'seed', '{"k8s_namespaces": []}'
  from workspaces w where w.organization_id = $1 and w.display_name like 'Seed %' and ${HAS_PLATFORM_LISTENER}
  on conflict do nothing`

const TAG_KEYS = `
  insert into tag_keys (id, organization_id, tenant_id, key)
  select ${tagId('w.id', 'key')}, w.organization_id, w.id, key
  from workspaces w, unnest(array['environment', 'team']) key where w.organization_id = $1 and w.display_name like 'Seed %'
  on conflict do nothing`

const TAG_VALUES = `
  insert into tag_values (id, organization_id, tenant_id, tag_key_id, value)
  select ${tagId('w.id', 'value')}, w.organization_id, w.id, ${tagId('w.id', 'key')}, value
  from workspaces w, (values ('environment', 'production'), ('environment', 'staging'), ('environment', 'development'),
    ('team', 'search'), ('team', 'support'), ('team', 'growth'), ('team', 'billing'), ('team', 'research')) v(key, value)
  where w.organization_id = $1 and w.display_name like 'Seed %'
  on conflict do nothing`

/** A number from 0 to 1 that follows from the deployment's: the same in every run, and a different one for every question. */
const randomFraction = (question: number) => `((hashint4extended(n, ${question}) & 1048575) / 1048576.0)`
const pickOne = (question: number, ...items: string[]) =>
  `(array[${items.map(item => `'${item}'`).join(', ')}])[1 + floor(${randomFraction(question)} * ${items.length})::integer]`

const NAME = `${pickOne(1, 'billing', 'support', 'research', 'checkout', 'search', 'triage', 'sales', 'review', 'onboarding', 'catalog')}
  || '-' || ${pickOne(2, 'agent', 'bot', 'worker', 'assistant', 'api', 'copilot')} || '-' || to_hex(n)`
const STATUS = `case when ${randomFraction(3)} < 0.9 then 'READY' when ${randomFraction(4)} < 0.5 then 'UNUSED'
  when ${randomFraction(5)} < 0.4 then 'AWAITING_DATABASE' when ${randomFraction(5)} < 0.8 then 'UNKNOWN' else 'AWAITING_DELETE' end`
const RESOURCE_SPEC = `json_build_object('cpu', ${pickOne(7, '0.5', '1', '2')}::numeric, 'memory_mb', 1024, 'min_scale', 1,
  'max_scale', 1 + floor(${randomFraction(8)} * 9)::integer)`
const SOURCE_CONFIG = `json_strip_nulls(json_build_object(
  'integration_id', case when source = 'githost' then ${integrationId('tenant_id')} end,
  'repo_url', case when source = 'githost' then 'https://github.com/acme/' || name end,
  'build_on_push', case when source = 'githost' then ${randomFraction(9)} < 0.7 end,
  'template_id', case when source = 'internal_template' then 'chat-agent' end,
  'resource_spec', ${RESOURCE_SPEC}, 'deployment_type', deployment_type))`
/** As the app has it: the tag of the image, where there is one. A patch of the row would otherwise mend it, and an index with it. */
const VERSION = `'0.' || floor(${randomFraction(15)} * 20)::integer || '.' || n % 5`
const REVISION_CONFIG = `json_strip_nulls(json_build_object(
  'repo_ref', case when source = 'githost' then ${pickOne(10, 'main', 'main', 'release', 'develop')} end,
  'platform_config_path', case when source = 'githost' then 'platform.json' end,
  'repo_commit_sha', case when source = 'githost' then md5(n::text) || 'a5c9d11e' end,
  'image_uri', case when source = 'internal_container' then 'registry.example.com/acme/' || name || ':' || ${VERSION} end))`

/** A tenth is the first tenant's; of the others, few have many. The older a deployment, the smaller its number. */
const DEPLOYMENTS = `
  with drawn as (
    select n, ${derivedId(`'deployment:' || n`)} as id, ${derivedId(`'revision:' || n`)} as revision_id, ${NAME} as name, ${STATUS} as status,
      ($2::uuid[])[case when n % 10 = 0 then 1
        else 1 + ceil((cardinality($2::uuid[]) - 1) * power(${randomFraction(11)}, 3))::integer end] as tenant_id,
      ${pickOne(12, 'githost', 'githost', 'githost', 'githost', 'internal_container', 'internal_template')} as source,
      ${pickOne(13, 'dev_free', 'dev', 'dev', 'prod')} as deployment_type,
      ${pickOne(16, 'production', 'staging', 'development')} as environment,
      ${pickOne(17, 'search', 'support', 'growth', 'billing', 'research')} as team,
      ${randomFraction(18)} < 0.85 as reconciled, timestamptz '2025-01-01 00:00Z' + n * interval '30 seconds' as at
    from generate_series($3::integer, $4::integer) n),
  configured as (
    select *, ${SOURCE_CONFIG} as config, ${REVISION_CONFIG} as made_from, case when source = 'internal_container' then ${VERSION} end as image_version,
      case when ${randomFraction(19)} < 0.7 then array[${tagId('tenant_id', 'environment')}, ${tagId('tenant_id', 'team')}] else '{}' end as tags
    from drawn),
  made as (
    insert into deployments (id, organization_id, tenant_id, name, source, deployment_type, status, image_version, tag_value_ids, source_config,
      listener_id, source_revision_config, secrets, acknowledged, remote_reconciled, latest_revision_id, active_revision_id, deleting_at, created_at, updated_at)
    select id, $1, tenant_id, name, source, deployment_type, status, image_version, tags, config,
      case when ${HAS_PLATFORM_LISTENER} then ${listenerId('tenant_id')} end, made_from, '[]', reconciled::integer,
      reconciled, revision_id, case when reconciled then revision_id end, case when status = 'AWAITING_DELETE' then at end, at, at
    from configured on conflict do nothing returning *),
  projected as (
    insert into projects (organization_id, tenant_id, deployment_id, name, created_at)
    select organization_id, tenant_id, id, name, created_at from made where deleting_at is null on conflict do nothing)
  insert into revisions (id, organization_id, tenant_id, deployment_id, number, source, source_config, source_revision_config, secrets, status,
    reasons, actor_kind, created_at, updated_at, status_since)
  select latest_revision_id, organization_id, tenant_id, id, 1, source, source_config, source_revision_config, secrets,
    case when remote_reconciled then 'DEPLOYED' else 'DEPLOY_FAILED' end, '{created}', 'key', created_at, created_at, created_at from made`

const COUNTS = `
  select (select count(*) from workspaces where organization_id = $1)::integer as workspaces,
    (select count(*) from deployments where organization_id = $1)::integer as deployments,
    (select count(*) from revisions where organization_id = $1)::integer as revisions,
    (select count(*) from deployments where tenant_id = $2)::integer as largest`
