// A modal dialog: the browser's own, which keeps the focus and closes with Escape.
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { Button } from './button.tsx'
import styles from './dialog.module.css'

type DialogProps = {
  title: string
  children: ComponentChildren
  footer?: ComponentChildren
  onClose: () => void
  /** For one that a person must answer. */
  persistent?: boolean
  wide?: boolean
}
export function Dialog({ title, children, footer, onClose, persistent = false, wide = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  // Before the next key, which belongs to it.
  useLayoutEffect(() => dialog.current?.showModal(), [])
  const closeOutside = ({ target }: MouseEvent) => !persistent && target === dialog.current && onClose()
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it too
    <dialog
      ref={dialog}
      class={`${styles.dialog} ${wide ? styles.wide : ''}`}
      aria-labelledby={titleId}
      onClose={onClose}
      onCancel={event => persistent && event.preventDefault()}
      onClick={closeOutside}
    >
      <div class={styles.frame}>
        <header>
          <h2 id={titleId}>{title}</h2>
          {!persistent && <Button small look="bare" icon="cross" aria-label="Close" onClick={onClose} />}
        </header>
        <div class={styles.body}>{children}</div>
        {footer && <footer>{footer}</footer>}
      </div>
    </dialog>
  )
}
