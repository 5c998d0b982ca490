// The interface between the agent and the reverse proxy that serves its router in public.

/** The address of the router on this machine, for the proxy. */
export type RouterEndpoint = {
  port: number
  /** Answers 200 or 403 to `?domain=…`: whether a certificate for the host may be ordered now. */
  certificateQuestion: string
}

export interface PublicProxy {
  /** Keeps the proxy configured until `close`, also after a restart of the proxy or of the router. */
  open(router: () => RouterEndpoint): void
  /** The proxy goes on serving. */
  close(): void
}
