// What the theme leaves out for readers who listen: the level of headings in the list of pages, and names of its parts.
for (const caption of document.querySelectorAll('.caption[role="heading"]')) caption.setAttribute("aria-level", "2");
document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "This page");
// What is wider than the page scrolls by itself: whoever has no mouse must be able to reach it.
for (const wide of document.querySelectorAll(".table-wrapper, .shown, .highlight pre")) {
  if (wide.scrollWidth <= wide.clientWidth) continue;
  wide.tabIndex = 0;
  wide.setAttribute("role", "group");
  wide.setAttribute("aria-label", "A part that scrolls");
}
