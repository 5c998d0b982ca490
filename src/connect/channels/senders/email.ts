// Notices as e-mails: a text, the same in HTML, and the graph as a picture. Those of one thread are one conversation.
import { html } from 'hono/html'
import { derivedUuid } from '../../../kernel/crypto/digest.ts'
import { configuredOrigin } from '../../../kernel/http/origin.ts'
import { type Mail, MailError } from '../../../platform.ts'
import { CHART_SIZE, drawChart } from './line-chart.ts'
import {
  type OutgoingChannel,
  type OutgoingNotice,
  pageUrl,
  type Sender,
  type SendServices,
  shorten,
  stateOf,
  UndeliveredError,
} from './outgoing.ts'

const CHART_ID = 'graph'
const PRE = 'background:#f4f6f9;padding:8px;white-space:pre-wrap'

/** One line: a subject never has a line break. */
const oneLine = (text: string): string => text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim()

export const unsubscribeUrl = (
  { config }: SendServices,
  { credentials }: Pick<OutgoingChannel, 'credentials'>,
): string =>
  `${configuredOrigin(config)}/channel-links/unsubscribe?token=${encodeURIComponent(credentials.unsubscribe!)}`

const mailHost = ({ config }: SendServices): string => config.smtp?.from.address.split('@')[1] ?? 'slipway.invalid'

const formatValue = (value: number, unit: string): string => `${Number(value.toPrecision(4))}${unit && ` ${unit}`}`

function describeChart({ chart }: OutgoingNotice['content']): string | undefined {
  if (!chart || chart.points.length < 2) return undefined
  const values = chart.points.map(([, value]) => value)
  const [least, most] = [Math.min(...values), Math.max(...values)]
  const range = `from ${formatValue(least, chart.unit)} to ${formatValue(most, chart.unit)}`
  const limit = chart.threshold === undefined ? '' : `, threshold ${formatValue(chart.threshold, chart.unit)} (dashed)`
  return `${chart.title}: ${range}${limit}`
}

/** A repeat has the same Message-ID. All of a thread refer to one that is not sent, so any of them may be the first. */
export async function buildMail(
  services: SendServices,
  channel: OutgoingChannel,
  notice: OutgoingNotice,
): Promise<Mail> {
  const { content, phase } = notice
  const host = mailHost(services)
  const state = stateOf(notice)
  const link = pageUrl(services, content)
  const leave = unsubscribeUrl(services, channel)
  const caption = describeChart(content)
  const times = [['Started', content.started_at], ...(content.ended_at ? [['Ended', content.ended_at]] : [])] as const
  const facts = [...content.facts.map(({ name, value }) => [name, value] as const), ...times]
  const text = [
    `${state}: ${content.title}`,
    ...(content.summary ? ['', content.summary] : []),
    '',
    ...facts.map(([name, value]) => `${name}: ${value}`),
    ...(caption ? ['', caption] : []),
    ...(content.lines.length > 0 ? ['', ...content.lines.map(line => `  ${line}`)] : []),
    '',
    link,
    '',
    `-- `,
    `Stop these e-mails: ${leave}`,
    '',
  ].join('\n')
  const rows = facts.map(([name, value]) => html`<tr><th align="left">${name}</th><td>${value}</td></tr>`)
  const picture = html`<p><img src="cid:${CHART_ID}" width="${CHART_SIZE.width}" height="${CHART_SIZE.height}"
alt="${caption ?? ''}" style="max-width:100%;border:1px solid #e2e6ec"><br><small>${caption ?? ''}</small></p>`
  const page = html`<!doctype html><html lang="en"><body style="font:15px/1.5 sans-serif;color:#1a2029">
<h1 style="font-size:18px">${state}: ${content.title}</h1>
${content.summary ? html`<p style="white-space:pre-line">${content.summary}</p>` : ''}
<table cellpadding="4" style="border-collapse:collapse">${rows}</table>
${caption ? picture : ''}
${content.lines.length > 0 ? html`<pre style="${PRE}">${content.lines.join('\n')}</pre>` : ''}
<p><a href="${link}">Open in Slipway</a></p>
<p><small><a href="${leave}">Stop these e-mails</a></small></p></body></html>`
  const title = `[Slipway] ${shorten(oneLine(content.title), 200)}`
  const root = `<${derivedUuid(`thread ${channel.id} ${notice.thread}`)}@${host}>`
  return {
    to: channel.config.address!,
    // Mail clients keep a conversation together that has one subject.
    subject: phase === 'update' || phase === 'close' ? `Re: ${title}` : title,
    text,
    html: String(await page),
    messageId: `<${notice.id}@${host}>`,
    references: phase === 'single' ? [] : [root],
    unsubscribeUrl: leave,
    pictures: caption ? [{ id: CHART_ID, bytes: await drawChart(content.chart!) }] : [],
  }
}

/** An UndeliveredError of what the mail server said. */
export async function deliverMail({ platform }: SendServices, mail: Mail): Promise<void> {
  if (!platform.sendMail) throw new UndeliveredError('email_unavailable', { isBusy: true })
  try {
    await platform.sendMail(mail)
  } catch (error) {
    if (!(error instanceof MailError)) throw error
    const { status, isFinal } = error
    throw new UndeliveredError(status === null ? 'upstream_error' : 'refused', { status, isFinal, isBusy: !isFinal })
  }
}

export const sendByEmail: Sender = async (services, channel, notice) => {
  await deliverMail(services, await buildMail(services, channel, notice))
  return { status: 250 }
}
