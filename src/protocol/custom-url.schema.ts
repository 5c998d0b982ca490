// Schemas of custom URLs and their hosts.
import * as z from 'zod'
import { boundedText, listOf } from './wire.ts'

const MAX_URL_LENGTH = 2048
const MAX_HOST_LENGTH = 253
const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
/** The URL parser reads a host that ends like this as an IPv4 address. */
const NUMERIC_LABEL = /^(\d+|0x[0-9a-f]*)$/

/** The setting `APPS_DOMAIN` of the control plane and of agents. */
export const AppsDomain = z
  .string()
  .regex(/^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, {
    error: 'must be a domain such as apps.example.com',
  })

/** Not an IP address and not a wildcard: a DNS record cannot prove who owns those. */
function isHostName(host: string): boolean {
  const labels = host.split('.')
  return (
    host.length <= MAX_HOST_LENGTH &&
    labels.every(label => DNS_LABEL.test(label)) &&
    !NUMERIC_LABEL.test(labels.at(-1)!)
  )
}

/** The same as `custom_host()` in the database. */
export const hostOf = (customUrl: string): string | undefined =>
  URL.parse(customUrl.startsWith('https://') ? customUrl : `https://${customUrl}`)?.hostname

/** The URL parser and the database must agree on the host. */
const isCustomUrl = (url: string): boolean => {
  const host = url.replace('https://', '').split(/[/:]/)[0]!.toLowerCase()
  return isHostName(host) && hostOf(url) === host
}

/** Lower-case host, no default port, no trailing slash, no `..` in the path. */
function normalizeCustomUrl(customUrl: string): string {
  const isHost = !customUrl.startsWith('https://')
  const url = URL.parse(isHost ? `https://${customUrl}` : customUrl)
  if (!url) return customUrl
  if (isHost) return url.host
  return `https://${url.host}${url.pathname.replace(/\/$/, '')}`
}

const CUSTOM_URL_RULE = [
  'must be a host name or an https URL, like `app.example.com` or `https://app.example.com/path`,',
  'without IP address, wildcard, trailing dot, query or fragment; international names in Punycode',
].join(' ')

export const CustomUrl = boundedText(MAX_URL_LENGTH)
  .regex(/^(https:\/\/[A-Za-z0-9.-]+(:\d{1,5})?(\/[!"$->@-[\]-~]*)?|[A-Za-z0-9.-]+(:\d{1,5})?)$/, {
    error: CUSTOM_URL_RULE,
    abort: true,
  })
  .refine(isCustomUrl, { error: CUSTOM_URL_RULE, abort: true })
  .overwrite(normalizeCustomUrl)

export const CustomHostRef = z.object({
  host: boundedText(MAX_HOST_LENGTH)
    .toLowerCase()
    .refine(isHostName, { error: 'must be a host name, like `app.example.com`' })
    .meta({ description: 'The host of a `custom_url`.' }),
})

export const CustomHost = z
  .object({
    host: z.string(),
    verified_at: z.string().nullable().meta({
      format: 'date-time',
      description: 'When a DNS record proved that this workspace owns the host; null before.',
    }),
    certificate_failed_at: z.string().nullable().meta({
      format: 'date-time',
      description: 'When its agent could not order or renew a certificate for it; null if none has failed since.',
    }),
    unreachable_since: z.string().nullable().meta({
      format: 'date-time',
      description: 'Since when DNS does not lead to the machine that serves it; null while it does, or is not known.',
    }),
    record: z.object({ name: z.string(), value: z.string() }).meta({ description: 'The TXT record that proves it.' }),
    served: z.boolean().meta({
      description: 'Whether agents serve it: it is verified, or its deployment runs on a listener of this workspace.',
    }),
  })
  .meta({ id: 'CustomHost', description: 'A host that this workspace owns, by a `custom_url` or by a DNS record.' })
export type CustomHost = z.output<typeof CustomHost>
export const CustomHostList = listOf(CustomHost).meta({
  id: 'CustomHostList',
  description: 'A page of custom hosts, newest first.',
})
