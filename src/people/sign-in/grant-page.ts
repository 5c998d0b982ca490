// Parts of both pages on which a person lets a program in. Their script is `grant-page-script.ts`.
export const PERSON = `<p id="as" hidden>You are signed in to <b id="organization"></b> as <b id="who"></b>.
<a href="/sign-in">Not you?</a></p>
<section id="no-member" hidden>
<p>You are signed in with an API key, which cannot approve a program. <a href="/sign-in">Sign out</a>, and sign in as a
member: with a sign-in link or with your organization’s account.</p>
</section>`

/** The page closes the `div`, after saying when the grant ends. */
export const GRANT = `<p id="no-workspace" hidden>You have no workspace in which you could approve it.</p>
<div id="grant">
<p><label for="workspace">It may act as you in the workspace</label>
<select id="workspace"></select></p>
<fieldset>
<legend>It may</legend>
<label><input type="radio" name="access" value="all" checked> do everything that you may do there</label>
<label><input type="radio" name="access" value="read"> only read</label>
</fieldset>
<ul id="permissions"></ul>`

export const BUTTONS = `<p><button id="approve" type="button">Approve</button>
<button id="deny" class="second" type="button">Deny</button></p>`
