// Applies the chosen theme before anything is painted.
(function () {
  try {
    const theme = localStorage.getItem("knowloom-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden; then the theme follows the system.
  }
})();
