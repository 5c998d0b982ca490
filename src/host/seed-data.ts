// Generates tenants and deployments. Every run generates the same ones, so a second run adds only what is missing.
import pg from 'pg'
import { connect } from '../kernel/db/db.ts'
import { bootstrap } from '../people/access/bootstrap.ts'
import { openDatabase } from './database-connection.ts'

type SeedOptions = { tenants: number; deployments: number; onProgress?: (done: number) => void }
export type SeedResult = {
  organization_id: string
  /** The workspace with a tenth of all deployments, and a key of it. */
  tenant_id: string
  api_key: string
  counts: { workspaces: number; deployments: number; revisions: number; largest: number }
}

const BATCH = 20_000
/** Generating rows takes processor time, not disk. */
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
    // In the order of their numbers: each deployment picks one by its index.
    const { rows } = await client.query(
      `select array_agg(id order by length(display_name), display_name) as ids from workspaces
        where organization_id = $1 and display_name like 'Seed %'`,
      [organization],
    )
    const workspaces = rows[0].ids.slice(0, tenants)
    let [next, done] = [1, 0]
    const fill = async (connection: pg.Client) => {
      while (next <= deployments) {
        const [from, to] = [next, Math.min(next + BATCH - 1, deployments)]
        next = to + 1
        await connection.query(DEPLOYMENTS, [organization, workspaces, from, to])
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
    await Promise.all(clients.map(each => each.end()))
  }
}

async function openConnection(client: pg.Client): Promise<void> {
  await client.connect()
  // With asynchronous commits, the vacuum would skip rows whose commit is not written yet.
  await client.query('set synchronous_commit = on')
  await client.query('set role slipway_system')
}

async function createBigTenant(databaseUrl: string) {
  const { database, pools, close } = openDatabase({ url: databaseUrl }, { poolSize: 1 })
  try {
    return await bootstrap(connect({ database }, pools?.connections), {
      organization: ORGANIZATION,
      workspace: BIG_WORKSPACE,
    })
  } finally {
    await close()
  }
}

const WORKSPACES = `
  insert into workspaces (organization_id, display_name)
  select $1::uuid, 'Seed ' || n
  from generate_series(1, $2::integer) n
  where 'Seed ' || n <> $3
  on conflict do nothing`

/** An id derived from the organization and a text. */
const derivedId = (text: string) => `md5($1::uuid || ':' || ${text})::uuid`
const integrationId = (tenant: string) => derivedId(`${tenant} || ':integration'`)
const tagId = (tenant: string, tag: string) => derivedId(`${tenant} || ':' || ${tag}`)
const SEED_WORKSPACES = `w.organization_id = $1 and w.display_name like 'Seed %'`

/** Installations of an App that does not exist. */
const INTEGRATIONS = `
  insert into integrations (id, organization_id, tenant_id, host, base_url, installation_id, account_id, name)
  select
    ${integrationId('w.id')}, w.organization_id, w.id, 'github', 'https://github.com', 'seed ' || w.id, '1', 'acme'
  from workspaces w
  where ${SEED_WORKSPACES}
  on conflict do nothing`

/** With a platform listener, its agents would try to run the deployments: they are assigned to one without an agent. */
const HAS_PLATFORM_LISTENER = 'exists (select from listeners where tenant_id is null)'
const listenerId = (tenant: string) => derivedId(`${tenant} || ':listener'`)
const LISTENERS = `
  insert into listeners (id, organization_id, tenant_id, compute_type, compute_id, compute_config)
  select ${listenerId('w.id')}, w.organization_id, w.id, 'local', 'seed', '{"k8s_namespaces": []}'
  from workspaces w
  where ${SEED_WORKSPACES} and ${HAS_PLATFORM_LISTENER}
  on conflict do nothing`

const TAG_KEYS = `
  insert into tag_keys (id, organization_id, tenant_id, key)
  select ${tagId('w.id', 'key')}, w.organization_id, w.id, key
  from workspaces w, unnest(array['environment', 'team']) key
  where ${SEED_WORKSPACES}
  on conflict do nothing`

const TAG_VALUES = `
  insert into tag_values (id, organization_id, tenant_id, tag_key_id, value)
  select ${tagId('w.id', 'value')}, w.organization_id, w.id, ${tagId('w.id', 'key')}, value
  from workspaces w, (
    values
      ('environment', 'production'), ('environment', 'staging'), ('environment', 'development'),
      ('team', 'search'), ('team', 'support'), ('team', 'growth'), ('team', 'billing'), ('team', 'research')
  ) v(key, value)
  where ${SEED_WORKSPACES}
  on conflict do nothing`

/** A number from 0 to 1, derived from the deployment's number. Each seed gives another sequence. */
const randomFraction = (seed: number) => `((hashint4extended(n, ${seed}) & 1048575) / 1048576.0)`
const pickOne = (seed: number, ...items: string[]) => {
  const list = items.map(item => `'${item}'`).join(', ')
  return `(array[${list}])[1 + floor(${randomFraction(seed)} * ${items.length})::integer]`
}

const TOPICS = 'billing support research checkout search triage sales review onboarding catalog'.split(' ')
const KINDS = 'agent bot worker assistant api copilot'.split(' ')
const NAME = `${pickOne(1, ...TOPICS)} || '-' || ${pickOne(2, ...KINDS)} || '-' || to_hex(n)`
const STATUS = `
  case
    when ${randomFraction(3)} < 0.9 then 'READY'
    when ${randomFraction(4)} < 0.5 then 'UNUSED'
    when ${randomFraction(5)} < 0.4 then 'AWAITING_DATABASE'
    when ${randomFraction(5)} < 0.8 then 'UNKNOWN'
    else 'AWAITING_DELETE'
  end`
const RESOURCE_SPEC = `json_build_object(
  'cpu', ${pickOne(7, '0.5', '1', '2')}::numeric,
  'memory_mb', 1024,
  'min_scale', 1,
  'max_scale', 1 + floor(${randomFraction(8)} * 9)::integer)`
const SOURCE_CONFIG = `json_strip_nulls(json_build_object(
  'integration_id', case when source = 'githost' then ${integrationId('tenant_id')} end,
  'repo_url', case when source = 'githost' then 'https://github.com/acme/' || name end,
  'build_on_push', case when source = 'githost' then ${randomFraction(9)} < 0.7 end,
  'template_id', case when source = 'internal_template' then 'chat-agent' end,
  'resource_spec', ${RESOURCE_SPEC},
  'deployment_type', deployment_type))`
/** The image's tag, as the app stores it. With another value, the next patch would correct it and touch an index. */
const VERSION = `'0.' || floor(${randomFraction(15)} * 20)::integer || '.' || n % 5`
const IMAGE = `'registry.example.com/acme/' || name || ':' || ${VERSION}`
const REVISION_CONFIG = `json_strip_nulls(json_build_object(
  'repo_ref', case when source = 'githost' then ${pickOne(10, 'main', 'main', 'release', 'develop')} end,
  'platform_config_path', case when source = 'githost' then 'platform.json' end,
  'repo_commit_sha', case when source = 'githost' then md5(n::text) || 'a5c9d11e' end,
  'image_uri', case when source = 'internal_container' then ${IMAGE} end))`

/** A tenth belongs to the first tenant. Of the others, few have many. Lower numbers are older. */
const WORKSPACE_INDEX = `
  case
    when n % 10 = 0 then 1
    else 1 + ceil((cardinality($2::uuid[]) - 1) * power(${randomFraction(11)}, 3))::integer
  end`
const SOURCES = ['githost', 'githost', 'githost', 'githost', 'internal_container', 'internal_template']
const DEPLOYMENTS = `
  with drawn as (
    select
      n,
      ${derivedId(`'deployment:' || n`)} as id,
      ${derivedId(`'revision:' || n`)} as revision_id,
      ${NAME} as name,
      ${STATUS} as status,
      ($2::uuid[])[${WORKSPACE_INDEX}] as tenant_id,
      ${pickOne(12, ...SOURCES)} as source,
      ${pickOne(13, 'dev_free', 'dev', 'dev', 'prod')} as deployment_type,
      ${randomFraction(18)} < 0.85 as reconciled,
      timestamptz '2025-01-01 00:00Z' + n * interval '30 seconds' as created
    from generate_series($3::integer, $4::integer) n
  ),
  configured as (
    select
      *,
      ${SOURCE_CONFIG} as config,
      ${REVISION_CONFIG} as revision_config,
      case when source = 'internal_container' then ${VERSION} end as image_version,
      case
        when ${randomFraction(19)} < 0.7
          then array[${tagId('tenant_id', pickOne(16, 'production', 'staging', 'development'))},
            ${tagId('tenant_id', pickOne(17, 'search', 'support', 'growth', 'billing', 'research'))}]
        else '{}'
      end as tags
    from drawn
  ),
  inserted as (
    insert into deployments (
      id, organization_id, tenant_id, name, source, deployment_type, status, image_version, tag_value_ids,
      source_config, listener_id, source_revision_config, secrets, acknowledged, remote_reconciled,
      latest_revision_id, active_revision_id, deleting_at, created_at, updated_at
    )
    select
      id, $1, tenant_id, name, source, deployment_type, status, image_version, tags,
      config, case when ${HAS_PLATFORM_LISTENER} then ${listenerId('tenant_id')} end, revision_config, '[]',
      reconciled::integer, reconciled,
      revision_id, case when reconciled then revision_id end, case when status = 'AWAITING_DELETE' then created end,
      created, created
    from configured
    on conflict do nothing
    returning *
  ),
  projected as (
    insert into projects (organization_id, tenant_id, deployment_id, name, created_at)
    select organization_id, tenant_id, id, name, created_at
    from inserted
    where deleting_at is null
    on conflict do nothing
  )
  insert into revisions (
    id, organization_id, tenant_id, deployment_id, number, source, source_config, source_revision_config, secrets,
    status, reasons, actor_kind, created_at, updated_at, status_since
  )
  select
    latest_revision_id, organization_id, tenant_id, id, 1, source, source_config, source_revision_config, secrets,
    case when remote_reconciled then 'DEPLOYED' else 'DEPLOY_FAILED' end, '{created}', 'key',
    created_at, created_at, created_at
  from inserted`

const COUNTS = `
  select
    (select count(*) from workspaces where organization_id = $1)::integer as workspaces,
    (select count(*) from deployments where organization_id = $1)::integer as deployments,
    (select count(*) from revisions where organization_id = $1)::integer as revisions,
    (select count(*) from deployments where tenant_id = $2)::integer as largest`
