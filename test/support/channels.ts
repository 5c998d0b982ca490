// Channels of a tenant: an app that keeps its e-mails, and notices.
import { sql } from 'drizzle-orm'
import { enqueueNotices } from '../../src/connect/channels/enqueue.ts'
import { deliverDueNotices } from '../../src/connect/channels/notice-worker.ts'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import type { Mail } from '../../src/platform.ts'
import type { NoticeContent } from '../../src/protocol/notice.schema.ts'
import { getServices, newTenant, type Overrides, startApp, type Tenant } from './app.ts'
import { makeFakeFetch, type Site } from './fake-fetch.ts'

export const makeContent = (more: Partial<NoticeContent> = {}): NoticeContent => ({
  title: 'shop: crash loop',
  summary: 'The process ended 5 times in 2 minutes.',
  severity: 'critical',
  url: '/ui/w/deployments/d',
  facts: [{ name: 'Deployment', value: 'shop' }],
  lines: ['Error: out of memory', '    at main'],
  started_at: '2026-11-30T12:00:00Z',
  ...more,
})

type Options = { sites?: Record<string, Site>; settings?: Record<string, unknown>; overrides?: Overrides }

/** Keeps e-mails in `mails`, and asks `onMail` about each before that. */
export async function newChannelTenant({ sites = {}, settings = {}, overrides = {} }: Options = {}) {
  const mails: Mail[] = []
  const state = { onMail: (_: Mail) => {} }
  const foreignFetch = makeFakeFetch(sites)
  const app = startApp({
    settings: { SMTP_URL: 'smtp://mail.test', SMTP_FROM: 'Slipway <alerts@slipway.test>', ...settings },
    overrides: {
      foreignFetch,
      sendMail: async mail => {
        state.onMail(mail)
        mails.push(mail)
      },
      ...overrides,
    },
  })
  const tenant = await newTenant({ app })
  const services = getServices(app)
  return { app, tenant, services, mails, state, foreignFetch, ...noticesOf(tenant, services) }
}

function noticesOf(tenant: Tenant, services: ReturnType<typeof getServices>) {
  const enqueue = (channel: { id: string }, thread: string, sequence: number, more: Partial<Enqueued> = {}) =>
    runAsSystem(
      services.database,
      sql`select ${enqueueNotices({
        tenant: tenant.tenant_id,
        channels: [channel.id],
        thread,
        sequence,
        phase: sequence === 0 ? 'open' : 'update',
        content: makeContent(),
        ...more,
      })}`,
    )
  const deliver = () => deliverDueNotices(services, sql`c.tenant_id = ${tenant.tenant_id}::uuid`)
  const listNotices = async ({ id }: { id: string }, query = '') =>
    (await tenant.get(`/v2/channels/${id}/notices?limit=100${query}`)).body.resources
  return { enqueue, deliver, listNotices }
}
type Enqueued = Pick<Parameters<typeof enqueueNotices>[0], 'phase' | 'content'>

export const settle = () => finishPendingWork()

/** The token of a link in an e-mail. */
export const linkIn = ({ text }: Mail, action: 'confirm' | 'unsubscribe'): string =>
  new RegExp(`(/channel-links/${action}\\?token=\\S+)`).exec(text)![1]!
