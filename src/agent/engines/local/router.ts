// The local router: routes requests, streams and WebSockets by host and path to the replicas of a revision.
import { randomBytes } from 'node:crypto'
import * as http from 'node:http'
import { isIP, Socket } from 'node:net'
import type { AccessRenewal } from '../../../protocol/access-renewals.schema.ts'
import { parseRange } from '../../../protocol/client-address.ts'
import type { RequestLogs } from '../../../protocol/request-logs.schema.ts'
import type { RequestCounts } from '../../engine.ts'
import { type EditHeaders, serveSite } from '../../site/serve-site.ts'
import { type OpenSite, OpenSites } from '../../site/site-manifest.ts'
import { respondProblem } from '../../system/problem-response.ts'
import { CopyConnection, CopyConnections } from './copy-connections.ts'
import { CopySession } from './copy-sessions.ts'
import { type Channel, type Connect, Forwarding, type Passed } from './forwarding.ts'
import { HeldRequests, HOLD_LIMITS, type HoldLimits } from './held-requests.ts'
import { Outliers } from './outliers.ts'
import { acceptHttp2, IDLE_MS } from './prior-knowledge.ts'
import { CLIENT_GONE, type CountedRequests, countAnswer, countsKey, zeroCounts } from './request-counts.ts'
import { RequestLoads } from './request-loads.ts'
import { type RequestLines, RequestLog } from './request-log.ts'
import { createRouteAccess, type RouteAccess } from './route-access.ts'
import {
  clientAddress,
  isWebSocket,
  MAX_HEADERS,
  namedHost,
  privateHeaders,
  refusalStatus,
  requestHeaders,
} from './router-headers.ts'
import { isTurnOf, isWritten, respondAndClose, respondMoved, respondUnrouted } from './router-responses.ts'
import type { ServerTarget } from './serving.ts'
import { type Split, sidesOf } from './split.ts'
import { SplitCounter } from './split-counts.ts'
import { createChooser } from './sticky.ts'
import { Turn, WAIT_LIMITS, WaitingRequests, type WaitLimits } from './waiting-requests.ts'

/** A server, or a folder of `copySite()` whose files the router serves itself. */
export type Target = ServerTarget | SiteTarget
/** Revisions may share a folder, and are drained one by one. */
type SiteTarget = { site: string; revision: string; copy?: string }
/**
 * Requests to the host at or below the path go to the targets. `of` is the deployment and `revision` its revision, for
 * the counts and the last request. Requests to `port` of the loopback address are for the host too. With `access`, only
 * those who may see it are let in.
 */
export type Route = {
  host: string
  path: string
  targets: Target[]
  of?: string
  revision?: string
  /** The revision beside it that gets a share of the requests. */
  split?: Split<Target>
  port?: number
  /** It sleeps: requests wait until it has targets. */
  holds?: boolean
  access?: RouteAccess
  /** The requests that become lines. Absent: none. */
  logs?: RequestLogs
  /** The revision of this host serves no more: where the newest one is. */
  moved_to?: string
}
/** The router itself answers requests for this path, for every host. */
export type OwnPath = { path: string; answer: (query: URLSearchParams) => Promise<boolean> }

type Answerer = Channel | OpenSite
type Way = {
  req: http.IncomingMessage
  host: string
  path: string
  connect: Connect
  /** Done once, before a copy is chosen. */
  prepare?: (() => Promise<void>) | undefined
  isClientGone: () => boolean
  permits: (route: Route) => boolean
  /** The revision that gets it, where the traffic is split. */
  choose: (route: Route) => Route
}

/** The time that a request waits for a replica that is being restarted. */
const CONNECT_WAIT_MS = 10_000
const CONNECT_RETRY_MS = 25
/** The limits: without requests, for the headers, for a pause within the body, and until the answer begins. */
export type RouterLimits = {
  idle_ms: number
  headers_ms: number
  body_ms: number
  answer_ms: number
  check_ms: number
} & HoldLimits &
  WaitLimits
const DEFAULT_ROUTER_LIMITS: RouterLimits = {
  idle_ms: IDLE_MS,
  headers_ms: 30_000,
  body_ms: 60_000,
  answer_ms: 15 * 60_000,
  check_ms: 5_000,
  ...HOLD_LIMITS,
  ...WAIT_LIMITS,
}
/** The time that input is discarded before the connection closes. Closing at once may lose the answer. */
const LINGER_MS = 2_000
/** The time that the counts of a revision without a route are kept, for the agent and for requests in flight. */
const COUNTS_KEPT_MS = 300_000

const drainMsOf = (target: Target) => ('site' in target ? 0 : (target.drain_ms ?? 0))
export const targetKey = (target: Target) =>
  'site' in target ? `site ${target.revision}` : `${target.host}:${target.port}`

/** `trustedProxies`: the addresses and networks whose `X-Forwarded-*` headers count. */
export function createRouter(
  limitOverrides: Partial<RouterLimits> = {},
  trustedProxies: string[] = [],
  ownPath?: OwnPath,
  accessKey = randomBytes(32).toString('hex'),
  onWake: (deployment: string) => void = () => {},
  askRenewal: (renewal: AccessRenewal) => void = () => {},
  sendLines: (lines: RequestLines[]) => boolean = () => false,
) {
  const limits = { ...DEFAULT_ROUTER_LIMITS, ...limitOverrides }
  const proxies = trustedProxies.map(parseRange)
  const access = createRouteAccess(accessKey, proxies, Date.now, askRenewal)
  /** Undefined before the first `apply`: until then, requests wait. */
  let routes: Route[] | undefined
  /** Names below localhost have no address in the resolvers of many programs. */
  let hostsByPort = new Map<number, string>()
  const hostOf = (req: http.IncomingMessage) => {
    const named = namedHost(req)
    return (isLocalName(named) ? hostsByPort.get(req.socket.localPort!) : undefined) ?? named
  }
  const inFlight = new Map<string, number>()
  const held = new HeldRequests(limits, onWake)
  const waiting = new WaitingRequests(limits)
  const outliers = new Outliers()
  const loads = new RequestLoads()
  const connections = new CopyConnections()
  const forwarding = new Forwarding({ limits, connections, pass, headersOf: req => requestHeaders(req, proxies) })
  const requestLog = new RequestLog(sendLines, req => clientAddress(req, proxies))
  /** When each deployment last began or ended a request. */
  const lastRequests = new Map<string, number>()
  let rotation = 0
  let longestDrainMs = 0
  const counts = new Map<string, RequestCounts>()
  const unreached = new Map<string, number>()
  const splitCounts = new SplitCounter()
  const sites = new OpenSites()
  /** When each revision with counts last had a route. */
  const routedAt = new Map<string, number>()

  const recordRequest = ({ of }: Route) => of !== undefined && lastRequests.set(of, Date.now())
  const revisionKey = ({ of, revision }: Route) => of && revision && countsKey(of, revision)
  const queueOf = (route: Route) => revisionKey(route) || (route.of ?? '')
  /** Undefined for a route without a revision. */
  function countsOf(route: Route, { copy }: Target): RequestCounts | undefined {
    const key = copy && revisionKey(route)
    if (!key) return undefined
    const name = countsKey(key, copy)
    const known = counts.get(name) ?? zeroCounts()
    counts.set(name, known)
    return known
  }
  function recordUnreached(route: Route, req: http.IncomingMessage, since: number): void {
    countSplit(route, req, 503, performance.now() - since)
    const key = revisionKey(route)
    if (key) unreached.set(key, (unreached.get(key) ?? 0) + 1)
  }
  function countSplit({ of, revision, split }: Route, req: http.IncomingMessage, status: number, ms: number): void {
    if (of && revision && split) splitCounts.record({ of, revision, beside: split.revision }, req, status, ms)
  }
  const find = (host: string, path: string) => routes?.find(route => route.host === host && isBelow(path, route.path))

  const hasRoom = (target: Target) =>
    'site' in target || target.limit === undefined || (inFlight.get(targetKey(target)) ?? 0) < target.limit

  /**
   * Counts the request from the choice of its target, so that the target is not drained before it arrives. `full`: all
   * have as many as they may.
   */
  function take(route: Route): { target: Target; release: () => void } | 'full' | undefined {
    const { targets, of } = route
    if (targets.length === 0) return undefined
    const admitted = outliers.admit(targets, targetKey)
    const free = admitted.every(hasRoom) ? admitted : admitted.filter(hasRoom)
    const target = free[rotation++ % free.length]
    if (!target) return 'full'
    const name = targetKey(target)
    inFlight.set(name, (inFlight.get(name) ?? 0) + 1)
    if (of !== undefined) loads.begin(of)
    let isReleased = false
    const release = () => {
      if (isReleased) return
      isReleased = true
      if (of !== undefined) loads.end(of)
      const left = inFlight.get(name)! - 1
      if (left) inFlight.set(name, left)
      else inFlight.delete(name)
      waiting.next(queueOf(route))
    }
    return { target, release }
  }

  /** Connects to any server that accepts, or opens a site. Retries are safe, because nothing was sent yet. */
  async function reach({ req, host, path, connect, prepare, isClientGone, permits, choose }: Way, turn: Turn) {
    let deadline = Date.now() + CONNECT_WAIT_MS
    const waitsUntil = Date.now() + limits.wait_ms
    const since = performance.now()
    for (;;) {
      const found = find(host, path)
      if (!found && routes) return 'unrouted'
      const route = found && choose(found)
      // Before anything else: the protection may have been set while the request waited, and a stranger wakes nothing.
      if (route && !permits(route)) return { refusedBy: route }
      if (route?.moved_to !== undefined) return { moved_to: route.moved_to }
      if (route?.holds && route.of !== undefined) {
        const outcome = await held.wait(route.of, isClientGone, () => find(host, path)?.holds === true)
        if (outcome !== 'awake') return outcome
        deadline = Date.now() + CONNECT_WAIT_MS
        continue
      }
      if (route && prepare) {
        await prepare()
        prepare = undefined
        continue
      }
      const isBehind = route !== undefined && waiting.isBehind(turn, queueOf(route))
      const taken = route && (isBehind ? 'full' : take(route))
      if (route) recordRequest(route)
      if (taken === 'full') {
        waiting.endTurn(turn, queueOf(route!))
        if (await waitForRoom(route!, waitsUntil, turn)) continue
        if (isClientGone()) return 'unavailable'
        recordUnreached(route!, req, since)
        return 'busy'
      }
      if (!route || !taken) waiting.endTurn(turn)
      else waiting.endTurn(turn, queueOf(route), outliers.admit(route.targets, targetKey).some(hasRoom))
      if (route && taken) {
        const { target } = taken
        const answerer = 'site' in target ? await sites.open(target.site) : await connect(target)
        const release = () => {
          recordRequest(route)
          taken.release()
        }
        if (answerer && route.of !== undefined) loads.count(route.of)
        if (answerer && !isClientGone()) return { route, target, answerer, release, since }
        if (!answerer) outliers.record(targetKey(target), true)
        taken.release()
        leave(answerer)
      }
      if (isClientGone()) return 'unavailable'
      if (Date.now() > deadline) {
        if (route) recordUnreached(route, req, since)
        return 'unavailable'
      }
      await new Promise(resolve => setTimeout(resolve, CONNECT_RETRY_MS))
    }
  }

  /** Waiting requests are load: copies may start for them. */
  async function waitForRoom(route: Route, until: number, turn: Turn): Promise<boolean> {
    const { of = '' } = route
    loads.begin(of)
    try {
      return await waiting.wait(queueOf(route), until, turn)
    } finally {
      loads.end(of)
    }
  }

  function leave(answerer: Answerer | undefined): void {
    if (answerer instanceof Socket) answerer.destroy()
    else if (answerer instanceof CopyConnection) answerer.close()
    else if (answerer instanceof CopySession) answerer.leave()
  }

  /** Finds who answers the request. Undefined if the client has already been answered, by the router or by a site. */
  async function pass(
    req: http.IncomingMessage,
    res: http.ServerResponse,
    connect: Connect,
    prepare?: () => Promise<void>,
  ): Promise<Passed | undefined> {
    const host = hostOf(req)
    const path = pathOf(req)
    const isClientGone = () => res.destroyed || res.socket!.destroyed
    const permits = (route: Route) => access.permits(req, route, path)
    const turn = new Turn(res)
    const entry = requestLog.begin(res, host, path)
    const { choose, withCookie } = createChooser(req, proxies)
    const reached = await reach({ req, host, path, connect, prepare, isClientGone, permits, choose }, turn)
    waiting.endTurn(turn)
    if (typeof reached === 'string') {
      const route = find(host, path)
      if (route) requestLog.follow(entry, req, res, route)
      return void respondUnrouted(res, reached, host)
    }
    if ('refusedBy' in reached) {
      requestLog.follow(entry, req, res, reached.refusedBy)
      return void (await access.answer(req, res, reached.refusedBy, path))
    }
    if ('moved_to' in reached) return void respondMoved(res, reached.moved_to)
    const { answerer, release, since, target } = reached
    requestLog.follow(entry, req, res, reached.route, target.copy)
    const renewed = access.renewedCookie(req)
    const isPrivate = reached.route.access !== undefined
    const edit = (headers: string[]) => withCookie(isPrivate ? [...privateHeaders(headers), ...renewed] : headers)
    const counted = countsOf(reached.route, target)
    let isRecorded = false
    const recordAnswer = (status: number) => {
      if (isRecorded) return
      isRecorded = true
      if (status !== CLIENT_GONE) requestLog.answered(entry, status)
      const ms = performance.now() - since
      if (counted) countAnswer(counted, status, ms)
      countSplit(reached.route, req, status, ms)
      if (status !== CLIENT_GONE) outliers.record(targetKey(target), status >= 500)
    }
    const onClose = () => {
      release()
      recordAnswer(res.headersSent ? res.statusCode : CLIENT_GONE)
    }
    res.once('close', onClose)
    if (!isChannel(answerer)) {
      await answerBySite(req, res, answerer, edit)
      if (res.headersSent) recordAnswer(res.statusCode)
      return undefined
    }
    /** The request is to be sent again: this attempt does not count. */
    const withdraw = () => {
      res.off('close', onClose)
      release()
    }
    return { answerer, release, edit, recordAnswer, withdraw }
  }

  function refuse(req: http.IncomingMessage, res: http.ServerResponse): boolean {
    const status = refusalStatus(req)
    if (status === null) return false
    const detail = 'The router cannot forward this request. Check its host, path, headers and length.'
    respondAndClose(res, status, detail)
    return true
  }

  async function answerBySite(
    req: http.IncomingMessage,
    res: http.ServerResponse,
    site: OpenSite,
    edit?: EditHeaders,
  ): Promise<void> {
    if (isWebSocket(req)) return respondProblem(res, 400, 'A static site accepts no WebSocket.')
    if (!req.complete) {
      // A site reads no body, and the connection serves its next request after it.
      req.resume()
      const late = setTimeout(() => req.socket.destroy(), limits.body_ms)
      req.once('close', () => clearTimeout(late))
    }
    if (await serveSite(req, res, site, edit)) return
    // Its folder was removed, or written again by another build.
    sites.forget(site.folder)
    respondUnrouted(res, 'unavailable', hostOf(req))
  }

  async function onRequest(req: http.IncomingMessage, res: http.ServerResponse) {
    if (!(await isTurnOf(req, res))) return
    if (ownPath && pathOf(req) === ownPath.path) {
      const isAllowed = await ownPath.answer(new URLSearchParams(req.url!.split('?')[1]))
      return void res.writeHead(isAllowed ? 200 : 403, { Connection: 'close' }).end()
    }
    if (refuse(req, res)) return
    await forwarding.forward(req, res)
  }

  /** The answers of the router itself are those of HTTP/1.1, which clients of gRPC translate. */
  async function onHttp2Request(req: http.IncomingMessage, res: http.ServerResponse) {
    if (!refuse(req, res)) await forwarding.forwardHttp2(req, res)
  }

  /** Forwards only the headers until the application answers 101. Any other answer ends the connection. */
  async function onUpgrade(req: http.IncomingMessage, client: Socket, head: Buffer) {
    client.on('error', () => client.destroy())
    const res = new http.ServerResponse(req)
    res.shouldKeepAlive = false
    // A handshake right after another request is none: that request's answer is still to come.
    if (!isWritten(() => res.assignSocket(client))) return void client.destroy()
    client.once('close', () => res.destroy())
    res.once('finish', () => {
      client.end()
      client.resume()
      setTimeout(() => client.destroy(), LINGER_MS).unref()
    })
    if (refuse(req, res)) return
    await forwarding.openTunnel(req, res, client, head)
  }

  const server = () => {
    const httpServer = http.createServer(
      {
        // Streams have no time limit. 0 would also disable the limit of the headers, if that were not set here.
        requestTimeout: 0,
        headersTimeout: limits.headers_ms,
        connectionsCheckingInterval: limits.check_ms,
        keepAliveTimeout: limits.idle_ms,
        // An offer to upgrade to HTTP/2 is ignored.
        shouldUpgradeCallback: isWebSocket,
      },
      (req, res) => void onRequest(req, res).catch(() => req.socket.destroy()),
    )
    // Each request of a client that does not wait for the answers before it listens.
    httpServer.on('connection', socket => socket.setMaxListeners(0))
    // Node drops headers beyond this number. One more than allowed lets `refusalStatus` notice.
    httpServer.maxHeadersCount = MAX_HEADERS + 1
    httpServer.on(
      'upgrade',
      (req, socket, head) => void onUpgrade(req, socket as Socket, head).catch(() => socket.destroy()),
    )
    acceptHttp2(httpServer, {
      headers_ms: limits.headers_ms,
      idle_ms: limits.idle_ms,
      onRequest: (req, res) => void onHttp2Request(req, res).catch(() => res.destroy()),
    })
    return httpServer
  }

  return {
    server,
    answerRenewal: access.answerRenewal,
    isServed: (host: string) => routes?.some(route => route.host === host) === true,
    /** Once it returns, new requests follow these routes. */
    apply(wanted: Route[]) {
      routes = wanted.toSorted((a, b) => b.path.length - a.path.length)
      held.look()
      waiting.look()
      hostsByPort = new Map(wanted.flatMap(({ host, port }) => (port === undefined ? [] : [[port, host]])))
      const sides = routes.flatMap(sidesOf)
      const targets = sides.flatMap(route => route.targets)
      splitCounts.keepOnly(new Map(routes.flatMap(({ of, split }) => (of && split ? [[of, split.revision]] : []))))
      forwarding.keepOnly(targets.flatMap(target => ('site' in target ? [] : target)))
      longestDrainMs = Math.max(longestDrainMs, ...targets.map(drainMsOf))
      outliers.keepOnly(new Set(targets.map(targetKey)))
      sites.keepOnly(new Set(targets.flatMap(target => ('site' in target ? target.site : []))))
      const served = new Set(routes.map(({ of }) => of))
      for (const of of lastRequests.keys()) if (!served.has(of)) lastRequests.delete(of)
      loads.keepOnly(served)
      requestLog.keepOnly(served)
      for (const route of sides) {
        const key = revisionKey(route)
        if (key) routedAt.set(key, Number.POSITIVE_INFINITY)
      }
      const now = Date.now()
      const routed = new Set(sides.map(revisionKey))
      for (const [key, at] of routedAt) if (at === Number.POSITIVE_INFINITY && !routed.has(key)) routedAt.set(key, now)
    },
    requestCounts(): CountedRequests {
      const isForgotten = (key: string) => (routedAt.get(key) ?? 0) < Date.now() - COUNTS_KEPT_MS
      for (const name of counts.keys()) if (isForgotten(name.slice(0, name.lastIndexOf('/')))) counts.delete(name)
      for (const key of unreached.keys()) if (isForgotten(key)) unreached.delete(key)
      for (const key of routedAt.keys()) if (isForgotten(key)) routedAt.delete(key)
      return { copies: Object.fromEntries(counts), unreached: Object.fromEntries(unreached) }
    },
    /** An agent takes the lines that waited. */
    sendWaitingLines: () => requestLog.flush(),
    lastRequests: () => Object.fromEntries(lastRequests),
    /** The deployments for whose next copy a request waits. */
    waking: () => held.deployments(),
    splitCounts: (deployment: string) => splitCounts.read(deployment),
    loads: () => loads.read(lastRequests, held.deployments()),
    inFlight: () => Object.fromEntries(inFlight),
    /** The longest time that requests in flight may need. */
    drainMs: () => longestDrainMs,
  }
}

/** Any page of the web can have a name of its own lead to the loopback address, and then read what answers there. */
const isLocalName = (name: string) =>
  !name.includes('.') || isIP(name.replace(/^\[|\]$/g, '')) > 0 || /\.(?:localhost|internal)$/.test(name)
const isChannel = (answerer: Answerer): answerer is Channel =>
  answerer instanceof Socket || answerer instanceof CopyConnection || answerer instanceof CopySession
const pathOf = (req: http.IncomingMessage) => req.url!.replace(/\?.*$/s, '')
const isBelow = (path: string, prefix: string) =>
  path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`)
